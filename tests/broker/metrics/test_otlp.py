"""The broker pushes its metrics to an OpenTelemetry collector, in a form that OpenTelemetry's own definitions parse."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

import pytest

from ottla.broker.lifecycle.server import StartupError
from ottla.monitoring.metrics.otlp import export_request, parse
from ottla.monitoring.metrics.otlp_push import CollectorClient, PushThread
from ottla.monitoring.metrics.text import Histogram, counter, family, gauge, labels, summary
from ottla.testing import Broker
from tests.broker.metrics.scraping import get, scrape
from tests.history.recorder import wait_until

service = pytest.importorskip(
    "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2",
    reason="OpenTelemetry's definitions are not installed: pip install opentelemetry-proto",
)

RESOURCE = {"service.name": "ottla", "service.instance.id": "1"}


def read(data: bytes) -> Any:
    [found] = service.ExportMetricsServiceRequest.FromString(data).resource_metrics
    return found


def attributes(entries: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in entries}


def by_name(resource: Any) -> dict[str, Any]:
    [scope] = resource.scope_metrics
    return {each.name: each for each in scope.metrics}


def test_every_kind_of_metric_is_written_as_its_own() -> None:
    times = Histogram()
    for value in range(100):
        times.add(value)
    text = "".join(
        [
            counter("made_total", "Made.\nIn all.", 3, labels(topic='a "b" \\n\n', partition=0)),
            gauge("level", "Level.", 0.25),
            gauge("far", "Far.", float("inf")),
            *family("many", "gauge", "Many.", [(labels(at=each), each) for each in range(3)]),
            *summary("took", "Took.", {labels(request="Produce"): times}, scale=0.5),
        ]
    )
    found = read(export_request(text, RESOURCE, time_ns=20, start_ns=10))
    assert attributes(found.resource.attributes) == RESOURCE
    metrics = by_name(found)
    assert list(metrics) == ["made_total", "level", "far", "many", "took"]
    made = metrics["made_total"]
    assert (made.description, made.sum.is_monotonic, made.sum.aggregation_temporality) == (
        "Made.\nIn all.", True, 2,
    )  # fmt: skip
    [point] = made.sum.data_points
    assert (point.as_int, point.start_time_unix_nano, point.time_unix_nano) == (3, 10, 20)
    assert attributes(point.attributes) == {"topic": 'a "b" \\n\n', "partition": "0"}
    assert [each.as_double for each in metrics["level"].gauge.data_points] == [0.25]
    assert [each.as_double for each in metrics["far"].gauge.data_points] == [float("inf")]
    assert [each.as_int for each in metrics["many"].gauge.data_points] == [0, 1, 2]
    [took] = metrics["took"].summary.data_points
    assert (took.count, took.sum, attributes(took.attributes)) == (100, 2475.0, {"request": "Produce"})
    assert [each.quantile for each in took.quantile_values] == [0.5, 0.75, 0.95, 0.98, 0.99, 0.999]
    assert took.quantile_values[0].value == pytest.approx(times.quantile(0.5) * 0.5)


class Collector(ThreadingHTTPServer):
    """Accepts pushes, or rejects them."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pushed: Queue[Any] = Queue()
        self.headers: dict[str, str] = {}
        self.status = 200
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,))
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/v1/metrics"
        assert self.headers["Content-Type"] == "application/x-protobuf"
        self.server.headers = dict(self.headers)
        if self.server.status == 200:
            self.server.pushed.put(read(gzip.decompress(body)))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running
        running.shutdown()
        running.thread.join()


@pytest.fixture(scope="module")
def broker(collector: Collector) -> Iterator[Broker]:
    settings = {
        "metrics.otlp.endpoint": collector.url,
        "metrics.otlp.interval.ms": "200",
        "metrics.otlp.headers": "Authorization=Bearer abc",
        "metrics.port": "0",
    }
    with Broker(config=settings) as running:
        yield running


def test_a_collector_gets_what_a_scrape_shows(broker: Broker, collector: Collector) -> None:
    broker.create_topic("orders")
    for _ in range(7):
        broker.produce("orders", b"v")

    def size() -> tuple[Any, int | None]:
        pushed = collector.pushed.get(timeout=20)
        found = by_name(pushed).get("kafka_log_log_size")
        points = found.gauge.data_points if found else []
        return pushed, next(
            (each.as_int for each in points if attributes(each.attributes)["topic"] == "orders"), None
        )

    scraped = scrape(broker)
    expected = scraped.value("kafka_log_log_size", topic="orders", partition="0")
    pushed, shown = size()
    while shown != expected:
        pushed, shown = size()
    text = get(broker.metrics_url)[2]
    assert [name for name in by_name(pushed) if f"# TYPE {name} " not in text] == []
    assert len(by_name(pushed)) == text.count("# TYPE ")
    about = attributes(pushed.resource.attributes)
    assert about["service.name"] == "ottla"
    assert about["service.instance.id"] == "0"
    assert collector.headers["Authorization"] == "Bearer abc"


def test_a_collector_that_refuses_is_counted_and_gets_the_next_one(
    broker: Broker, collector: Collector
) -> None:
    collector.status = 503
    wait_until(lambda: scrape(broker).value("ottla_otlp_failed_pushes_total") >= 1, "a refused push", 20)
    collector.status = 200
    before = scrape(broker).value("ottla_otlp_pushes_total")
    wait_until(lambda: scrape(broker).value("ottla_otlp_pushes_total") > before, "a push", 20)


def test_the_last_push_comes_at_the_end(collector: Collector) -> None:
    settings = {"metrics.otlp.endpoint": collector.url, "metrics.otlp.interval.ms": "3600000"}
    with Broker(config={**settings, "broker.id": "7"}):
        pass
    while True:
        pushed = collector.pushed.get(timeout=20)
        if attributes(pushed.resource.attributes)["service.instance.id"] == "7":
            break
    assert by_name(pushed)["kafka_server_kafkaserver_brokerstate"].gauge.data_points[0].as_int == 7


def test_other_programs_push_from_a_thread(collector: Collector) -> None:
    pushing = PushThread(
        CollectorClient(collector.url, {"service.name": "other"}), lambda: gauge("g", "G.", 5), 3600
    )
    pushing.start()
    pushing.stop()  # pushes one last time
    while True:
        pushed = collector.pushed.get(timeout=20)
        if attributes(pushed.resource.attributes)["service.name"] == "other":
            break
    assert by_name(pushed)["g"].gauge.data_points[0].as_int == 5


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("metrics.otlp.endpoint", "localhost:4318", "metrics.otlp.endpoint: 'localhost:4318' is no URL"),
        ("metrics.otlp.headers", "secret", "metrics.otlp.headers: headers are written as Name=value"),
    ],
)
def test_bad_settings_are_named(name: str, value: str, said: str) -> None:
    with pytest.raises(StartupError, match=said):
        Broker(config={"metrics.otlp.endpoint": "http://127.0.0.1:1", name: value}).start()


def test_text_is_read_as_it_was_written() -> None:
    [found] = parse(gauge("g", "About.", 1, labels(a="x,y={}", b="\\")))
    assert found.samples == [("g", (("a", "x,y={}"), ("b", "\\")), "1")]
    assert json.dumps(found.about) == '"About."'
