"""The repository's dashboards and rules query only existing metrics, and Prometheus and Grafana accept them."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.offsets import commit_offsets
from ottla.client.settings import Settings, parse_servers
from ottla.http.messages import Request, Response
from ottla.http.metrics import HttpMetrics
from ottla.monitoring.audit.count_reports import CountReport
from ottla.monitoring.audit.metrics import audit_lines
from ottla.monitoring.audit.tier_counts import TierCounts
from ottla.monitoring.canary import Canary
from ottla.monitoring.exporter import Exporter
from ottla.spark.pipelines.metrics import query_lines
from ottla.spark.pipelines.query_progress import QueryProgress
from ottla.testing import Broker
from tests.broker.metrics.panels import GRAFANA_7589, REQUEST_TIMES, STRIMZI_KAFKA
from tests.broker.metrics.scraping import get

ROOT = Path(__file__).resolve().parents[3]
CONFIG = ROOT / "config" / "metrics"
# Metrics that only clustered brokers expose; see test_cluster_metrics.
OF_CLUSTERS = {"ottla_zookeeper_connected"}
# Metrics of a Connect worker and of the console; see tests/connect/worker and tests/console/test_alerts.
OF_SERVICES = {"kafka_connect_connector_status", "ottla_connect_connector_status", "ottla_console_problem"}
NAME = re.compile(r"\b(?:kafka|ottla|process)_[a-z0-9_]+\b")


@pytest.fixture(scope="module")
def exposed() -> set[str]:
    """Return every metric name that one of our programs exposes."""
    settings = {"metrics.port": "0", "telemetry.otlp.endpoint": "http://127.0.0.1:1"}
    with Broker(config=settings) as broker:
        cluster = Cluster(Settings(parse_servers(broker.bootstrap_servers)))
        bird = Canary(cluster, "canary")
        bird.round()
        commit_offsets(cluster, "group", {TopicPartition("canary", 0): 1})
        exporter = Exporter(cluster)
        exporter.render()  # lag in seconds needs two measurements
        bird.round()
        queries = query_lines([("", QueryProgress("q", True, 1, 1, 1.0, 1.0, 1.0, 1, 1, 1, 1))])
        texts = [
            get(broker.metrics_url)[2],
            exporter.render(),
            "".join(bird.lines()),
            "".join(queries),
            _of_http(),
            "".join(audit_lines(_unbalanced(), 0)),
        ]
        cluster.close()
    return {
        line.split("{")[0].split(" ")[0] for text in texts for line in text.splitlines() if line[:1] != "#"
    }


def _unbalanced() -> TierCounts:
    tier_counts = TierCounts()
    for tier, time_ms in (("source", 1), ("mirror", 10_000)):
        report = CountReport("t", tier, 0, 0, 1, 10_000 + time_ms, "here", 1000)
        if tier == "source":
            report.note(0, None, b"lost")
        tier_counts.add(report)
    return tier_counts


def _of_http() -> str:
    metrics = HttpMetrics("test")
    request = Request("GET", "/", {}, None)  # type: ignore[arg-type]
    metrics.observe(request, Response(200, b""))
    return "".join(metrics._lines())


def queries() -> dict[str, str]:
    found = {}
    for file in sorted(CONFIG.glob("grafana-*.json")):
        board = json.loads(file.read_text())
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                found[f"{file.name} {panel['title']} {target['refId']}"] = target["expr"]
        for variable in board["templating"]["list"]:
            found[f"{file.name} ${variable['name']}"] = variable["query"]
    for rule in re.finditer(
        r"alert: (\w+)\s+expr: (.+?)\n\s+(?:for|labels):", (CONFIG / "alerts.yml").read_text(), re.S
    ):
        found[rule[1]] = rule[2]
    return found


def test_every_query_asks_for_what_is_shown(exposed: set[str]) -> None:
    asked = queries()
    assert len(asked) > 60
    for name, query in asked.items():
        assert set(NAME.findall(query)) <= exposed | OF_CLUSTERS | OF_SERVICES, name


def test_what_others_ask_for_is_shown_or_has_a_reason(exposed: set[str]) -> None:
    for title, query, reason in [*STRIMZI_KAFKA, *GRAFANA_7589, *REQUEST_TIMES]:
        if reason is None:
            assert set(NAME.findall(query)) <= exposed, title


def test_the_dashboards_are_what_the_script_writes() -> None:
    spec = importlib.util.spec_from_file_location("dashboards", ROOT / "scripts" / "grafana_dashboards.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, text in module.files().items():
        assert (CONFIG / name).read_text() == text, "run python scripts/grafana_dashboards.py"


def test_panels_do_not_lie_on_each_other() -> None:
    for file in CONFIG.glob("grafana-*.json"):
        taken: set[tuple[int, int]] = set()
        for panel in json.loads(file.read_text())["panels"]:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert place["x"] + place["w"] <= 24
            assert not cells & taken
            taken |= cells


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed: apt install prometheus"
)
@pytest.mark.parametrize("what", [("rules", "alerts.yml"), ("config", "prometheus.yml")])
def test_prometheus_accepts_the_files(what: tuple[str, str]) -> None:
    done = subprocess.run(["promtool", "check", what[0], what[1]], cwd=CONFIG, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
