"""Prometheus scrapes a broker under load with our configuration, and common dashboard panels show data."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.offsets import commit_offsets
from ottla.client.settings import Settings, parse_servers
from ottla.monitoring.canary import Canary
from ottla.monitoring.exporter import Exporter
from ottla.monitoring.metrics.endpoint import MetricsThread
from ottla.testing import Broker
from ottla.testing.ports import free_ports
from tests.broker.metrics.panels import GRAFANA_7589, REQUEST_TIMES, STRIMZI_KAFKA
from tests.broker.metrics.test_dashboards import CONFIG, queries

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("prometheus") is None, reason="Prometheus is not installed: apt install prometheus"
    ),
]


class Prometheus:
    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, query: str) -> list[dict[str, Any]]:
        parameters = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{parameters}", timeout=20) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return found

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}", timeout=20) as answer:
            return json.load(answer)["data"]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    directory = tmp_path_factory.mktemp("prometheus")
    with Broker(config={"metrics.port": "0"}) as broker:
        cluster = Cluster(Settings(parse_servers(broker.bootstrap_servers)))
        bird = Canary(cluster, "canary", records=50)
        bird.round()
        own = Cluster(Settings(parse_servers(broker.bootstrap_servers)))
        exporter = MetricsThread("127.0.0.1", 0, Exporter(own).render).start()
        canary = MetricsThread("127.0.0.1", 0, lambda: "".join(bird.lines())).start()
        targets = {"9404": broker.metrics_url, "9308": exporter.url, "9309": canary.url}
        process, url = _start(directory, {port: _port(each) for port, each in targets.items()})
        running = Prometheus(url)
        try:
            _wait(lambda: running.get("status/runtimeinfo"), process)
            until = time.monotonic() + 60
            # `irate` needs two scrapes of each target.
            while min(_scrapes(running, job) for job in ("kafka", "kafka-exporter", "canary")) < 4:
                assert time.monotonic() < until, "nothing was scraped"
                bird.round()
                commit_offsets(cluster, "billing", {TopicPartition("canary", 0): 1})
                time.sleep(0.05)
            yield running
        finally:
            process.terminate()
            process.wait(20)
            exporter.stop()
            canary.stop()
            cluster.close()
            own.close()


def _port(url: str) -> str:
    return str(urllib.parse.urlsplit(url).port)


def _start(directory: Path, ports: dict[str, str]) -> tuple[subprocess.Popen[bytes], str]:
    """Start Prometheus with the repository's configuration, but with other ports and a short scrape interval."""
    text = (CONFIG / "prometheus.yml").read_text().replace("15s", "500ms")
    for usual, port in ports.items():
        text = text.replace(f"localhost:{usual}", f"127.0.0.1:{port}")
    (directory / "prometheus.yml").write_text(text)
    shutil.copy(CONFIG / "alerts.yml", directory)
    [port] = free_ports(1)
    command = [
        "prometheus",
        "--config.file",
        str(directory / "prometheus.yml"),
        f"--storage.tsdb.path={directory}/data",
    ]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    return subprocess.Popen(command, cwd=directory), f"http://127.0.0.1:{port}"


def _wait(ready: Any, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            ready()
            return
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.1)


def _scrapes(prometheus: Prometheus, job: str) -> int:
    found = prometheus.ask(f'max(count_over_time(up{{job="{job}"}}[5m]))')
    up = prometheus.ask(f'max(up{{job="{job}"}})')
    return int(found[0]["value"][1]) if found and up and up[0]["value"][1] == "1" else 0


@pytest.mark.parametrize(("title", "query", "reason"), [*STRIMZI_KAFKA, *GRAFANA_7589, *REQUEST_TIMES])
def test_a_panel_has_data_or_a_reason(
    prometheus: Prometheus, title: str, query: str, reason: str | None
) -> None:
    assert bool(prometheus.ask(query)) == (reason is None)


def test_our_own_panels_have_data(prometheus: Prometheus) -> None:
    empty = []
    for name, query in queries().items():
        if not name.startswith("grafana-") or "$" in name:
            continue
        text = query.replace("$__rate_interval", "1m")
        text = re.sub(r"=~\"\$\w+\"", '=~".+"', text)
        if not prometheus.ask(text):
            empty.append(name)
    # Nothing else runs here: no pipelines, no HTTP servers, no pushing clients. No partition is under-replicated.
    expected = (
        "grafana-pipelines.json",
        "grafana-groups.json Under-replicated",
        "grafana-groups.json Seconds behind",
    )
    assert [name for name in empty if not name.startswith(expected)] == []


def test_no_alert_fires_in_a_healthy_cluster(prometheus: Prometheus) -> None:
    alerts = prometheus.get("alerts")["alerts"]
    # Two of the three brokers in the configuration do not run.
    assert {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"} <= {
        "KafkaBrokerDown"
    }
