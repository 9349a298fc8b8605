"""`ottla start --metrics` and `ottla exporter`, as processes."""

from __future__ import annotations

import gzip
import re
import signal
import subprocess

from tests.broker.metrics.scraping import Metrics, get
from tests.broker.telemetry.collector import Collector


def url_of(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    for line in iter(process.stdout.readline, b""):
        found = re.search(rb"http://\S+/\w+", line)
        if found:
            return found[0].decode()
    raise AssertionError("no address was printed")


def end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, b"")
    assert b"Stopped cleanly." in out


def test_a_broker_shows_its_metrics_where_it_is_told(ottla, tmp_path):
    broker = ottla.start(
        "start", "--listen", "127.0.0.1:0", "--data", str(tmp_path), "--metrics", "127.0.0.1:0"
    )
    found = Metrics(get(url_of(broker))[2])
    assert found.value("kafka_server_kafkaserver_brokerstate") == 3
    end(broker)


def test_the_exporter_takes_the_options_of_kafka_exporter(ottla, topic):
    exporter = ottla.start(
        "exporter",
        "--web.listen-address", "127.0.0.1:0",
        "--web.telemetry-path", "/lag",
        "--kafka.server", ottla.environment["OTTLA_BOOTSTRAP_SERVER"],
        "--topic.filter", f"^{topic}$",
    )  # fmt: skip
    url = url_of(exporter)
    assert url.endswith("/lag")
    found = Metrics(get(url)[2])
    assert [each.labels["topic"] for each in found.all("kafka_topic_partitions")] == [topic]
    end(exporter)


def test_what_is_wrong_is_one_sentence(ottla):
    refused = ottla("exporter", "--topic.filter", "(", check=False)
    assert refused.code == 2
    assert "--topic.filter '(' is not a valid regular expression" in refused.err


def test_brokers_and_exporters_push_to_a_collector(ottla, tmp_path):
    with Collector() as collector:
        url = f"http://127.0.0.1:{collector.server_port}"
        broker = ottla.start("start", "--listen", "127.0.0.1:0", "--data", str(tmp_path), "--otlp", url)
        for line in iter(broker.stdout.readline, b""):
            if b"Ctrl-C" in line:
                break
        end(broker)  # pushes one last time
        assert b"kafka_server_kafkaserver_brokerstate" in gzip.decompress(collector.bodies.get(timeout=20))
        exporter = ottla.start("exporter", "--web.listen-address", "127.0.0.1:0", "--otlp", url)
        assert get(url_of(exporter))[0] == 200
        end(exporter)
        assert b"kafka_brokers" in gzip.decompress(collector.bodies.get(timeout=20))
        collector.shutdown()
        collector.thread.join()
    refused = ottla("exporter", "--otlp", "nowhere", check=False)
    assert (refused.code, "--otlp: 'nowhere' is no URL of a collector" in refused.err) == (2, True)
