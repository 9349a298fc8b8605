"""Writes config/metrics/*.json, dashboards for Grafana: `python scripts/grafana_dashboards.py`.

Panels are a line each here. The JSON is what Grafana's import takes; nobody should have to edit it by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent / "config" / "metrics"

SHORT, BYTES, BPS, MS, S, PERCENT, PER_SECOND = "short", "bytes", "Bps", "ms", "s", "percentunit", "ops"
# Of all panels: one cluster may be chosen by the label that the scrape configuration gives it.
BROKER = 'instance=~"$instance"'
TOPIC = f'{BROKER},topic=~"$topic",topic!=""'
REQUESTS = "kafka_network_requestmetrics"
TOPICS = "kafka_server_brokertopicmetrics"
# Title, unit, then pairs of a query and its legend. A title alone begins a row. One figure is shown large.
CLUSTER = [
    "Health",
    ("Brokers", SHORT, ("count(kafka_server_kafkaserver_brokerstate == 3)", "")),
    ("Active controllers", SHORT, ("sum(kafka_controller_kafkacontroller_activecontrollercount)", "")),
    ("Offline partitions", SHORT, ("sum(kafka_controller_kafkacontroller_offlinepartitionscount)", "")),
    ("Under-replicated", SHORT, ("sum(kafka_server_replicamanager_underreplicatedpartitions)", "")),
    ("Below min ISR", SHORT, ("sum(kafka_server_replicamanager_underminisrpartitioncount)", "")),
    ("Unclean elections (1 d)", SHORT, ("sum(increase(kafka_controller_controllerstats_uncleanleaderelections_total[1d]))", "")),
    "Throughput",
    ("Bytes in", BPS, (f"sum by (instance) (rate({TOPICS}_bytesin_total{{{TOPIC}}}[$__rate_interval]))", "{{instance}}")),
    ("Bytes out", BPS, (f"sum by (instance) (rate({TOPICS}_bytesout_total{{{TOPIC}}}[$__rate_interval]))", "{{instance}}")),
    ("Messages in", PER_SECOND, (f"sum by (topic) (rate({TOPICS}_messagesin_total{{{TOPIC}}}[$__rate_interval]))", "{{topic}}")),
    ("Replication in", BPS, (f"sum by (instance) (rate({TOPICS}_replicationbytesin_total{{{TOPIC}}}[$__rate_interval]))", "{{instance}}")),
    ("Produce", PER_SECOND,
        (f"sum(rate({TOPICS}_totalproducerequests_total{{{TOPIC}}}[$__rate_interval]))", "batches"),
        (f"sum(rate({TOPICS}_failedproducerequests_total{{{TOPIC}}}[$__rate_interval]))", "failed")),
    ("Fetch", PER_SECOND,
        (f"sum(rate({TOPICS}_totalfetchrequests_total{{{TOPIC}}}[$__rate_interval]))", "partitions read"),
        (f"sum(rate({TOPICS}_failedfetchrequests_total{{{TOPIC}}}[$__rate_interval]))", "failed")),
    "Requests",
    ("Requests", PER_SECOND, (f'sum by (request) (rate({REQUESTS}_requests_total{{{BROKER},request!="Fetch"}}[$__rate_interval]))', "{{request}}")),
    ("Produce, 99 %", MS, *(
        (f'max({REQUESTS}_{phase}{{{BROKER},request="Produce",quantile="0.99"}})', phase.removesuffix("timems"))
        for phase in ("totaltimems", "requestqueuetimems", "localtimems", "remotetimems", "responsequeuetimems", "responsesendtimems"))),
    ("Consumer fetch, 99 %", MS, *(
        (f'max({REQUESTS}_{phase}{{{BROKER},request="FetchConsumer",quantile="0.99"}})', phase.removesuffix("timems"))
        for phase in ("totaltimems", "requestqueuetimems", "localtimems", "remotetimems", "responsequeuetimems", "responsesendtimems"))),
    ("Waiting", SHORT, (f"sum by (delayedOperation) (kafka_server_delayedoperationpurgatory_purgatorysize{{{BROKER}}})", "{{delayedOperation}}")),
    "Brokers",
    ("Idle", PERCENT, (f"kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent{{{BROKER}}}", "{{instance}}")),
    ("Loop lateness, 99 %", MS, (f'ottla_loop_lateness_ms{{{BROKER},quantile="0.99"}}', "{{instance}}")),
    ("Connections", SHORT, (f"sum by (instance, listener) (kafka_server_socket_server_metrics_connection_count{{{BROKER}}})", "{{instance}} {{listener}}")),
    ("Memory", BYTES, (f"process_resident_memory_bytes{{{BROKER}}}", "{{instance}}")),
    ("CPU", PERCENT, (f"rate(process_cpu_seconds_total{{{BROKER}}}[$__rate_interval])", "{{instance}}")),
    ("File descriptors", SHORT, (f"process_open_fds{{{BROKER}}}", "{{instance}}")),
    "Replication",
    ("Leaders", SHORT, (f"kafka_server_replicamanager_leadercount{{{BROKER}}}", "{{instance}}")),
    ("Replicas", SHORT, (f"kafka_server_replicamanager_partitioncount{{{BROKER}}}", "{{instance}}")),
    ("ISR changes", PER_SECOND,
        (f"sum(rate(kafka_server_replicamanager_isrshrinks_total{{{BROKER}}}[5m]))", "shrinks"),
        (f"sum(rate(kafka_server_replicamanager_isrexpands_total{{{BROKER}}}[5m]))", "expands")),
    ("Elections", MS, ('max(kafka_controller_controllerstats_leaderelectionrateandtimems{quantile="0.99"})', "99 %")),
    "Disks",
    ("Free", PERCENT, (f"ottla_log_directory_usable_bytes{{{BROKER}}} / ottla_log_directory_total_bytes{{{BROKER}}}", "{{instance}} {{logDirectory}}")),
    ("Largest topics", BYTES, ("topk(10, sum by (topic) (kafka_log_log_size))", "{{topic}}")),
    ("Written", BPS, (f"rate(kafka_server_kafkaserver_linux_disk_write_bytes{{{BROKER}}}[$__rate_interval])", "{{instance}}")),
    ("Flush, 99 %", MS, (f'kafka_log_logflushstats_logflushrateandtimems{{{BROKER},quantile="0.99"}}', "{{instance}}")),
]  # fmt: skip
GROUPS = [
    "Lag",
    ("Lag by group", SHORT, ('sum by (consumergroup, topic) (kafka_consumergroup_lag{consumergroup=~"$group"})', "{{consumergroup}} {{topic}}")),
    ("Consumed", PER_SECOND, ('sum by (consumergroup, topic) (rate(kafka_consumergroup_current_offset{consumergroup=~"$group"}[$__rate_interval]))', "{{consumergroup}} {{topic}}")),
    ("Produced", PER_SECOND, ("sum by (topic) (rate(kafka_topic_partition_current_offset[$__rate_interval]))", "{{topic}}")),
    ("Seconds behind, at the present pace", S, (
        'sum by (consumergroup, topic) (kafka_consumergroup_lag{consumergroup=~"$group"}) '
        '/ sum by (consumergroup, topic) (rate(kafka_consumergroup_current_offset{consumergroup=~"$group"}[5m]) > 0)',
        "{{consumergroup}} {{topic}}")),
    ("Members", SHORT, ('kafka_consumergroup_members{consumergroup=~"$group"}', "{{consumergroup}}")),
    "Topics",
    ("Partitions", SHORT, ("topk(20, kafka_topic_partitions)", "{{topic}}")),
    ("Under-replicated", SHORT, ("sum by (topic) (kafka_topic_partition_under_replicated_partition) > 0", "{{topic}}")),
]  # fmt: skip
PIPELINES = [
    "Queries",
    ("Rows in", PER_SECOND, ("ottla_query_input_rows_per_second", "{{pipeline}} {{query}}")),
    ("Batch time", S, ("ottla_query_batch_seconds", "{{pipeline}} {{query}}")),
    ("Lag", SHORT, ("ottla_query_lag", "{{pipeline}} {{query}}")),
    ("State", BYTES, ("ottla_query_state_bytes", "{{pipeline}} {{query}}")),
    "HTTP servers",
    ("Requests", PER_SECOND, ("sum by (server, status) (rate(ottla_http_requests_total[$__rate_interval]))", "{{server}} {{status}}")),
    ("Latency, 99 %", S, ('max by (server, route) (ottla_http_request_seconds{quantile="0.99"})', "{{server}} {{route}}")),
    ("Open streams", SHORT, ("ottla_http_streams", "{{server}}")),
    "Canary",
    ("Latency, 99 %", MS, ('ottla_canary_latency_ms{quantile="0.99"}', "broker {{broker}}")),
    ("Lost", SHORT, ("sum by (broker) (increase(ottla_canary_lost_total[1h]))", "broker {{broker}}")),
    "Metrics of clients",
    ("Pushes", PER_SECOND,
        ("sum(rate(ottla_client_telemetry_exported_total[$__rate_interval]))", "passed on"),
        ("sum(rate(ottla_client_telemetry_dropped_total[$__rate_interval]))", "dropped")),
]  # fmt: skip
VARIABLES = {
    "instance": "label_values(kafka_server_kafkaserver_brokerstate, instance)",
    "topic": "label_values(kafka_server_brokertopicmetrics_bytesin_total, topic)",
    "group": "label_values(kafka_consumergroup_members, consumergroup)",
}
_DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def dashboard(title: str, uid: str, entries: list[Any], variables: tuple[str, ...]) -> dict[str, Any]:
    panels: list[dict[str, Any]] = []
    x = y = height = 0
    for number, entry in enumerate(entries, 1):
        if isinstance(entry, str):
            y, x, height = y + height, 0, 0
            place = {"h": 1, "w": 24, "x": 0, "y": y}
            panels.append({"id": number, "type": "row", "title": entry, "gridPos": place, "panels": []})
            y += 1
            continue
        name, unit, *queries = entry
        is_figure = queries[0][1] == ""
        width, tall = (4, 4) if is_figure else (8, 8)
        if x + width > 24:
            x, y = 0, y + height
        panels.append(_panel(number, name, unit, queries, {"h": tall, "w": width, "x": x, "y": y}, is_figure))
        x, height = x + width, tall
    return {
        "uid": uid,
        "title": title,
        "tags": ["kafka", "ottla"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_data_source(), *map(_variable, variables)]},
        "panels": panels,
    }


def _panel(
    number: int, name: str, unit: str, queries: list[tuple[str, str]], place: dict[str, int], is_figure: bool
) -> dict[str, Any]:
    return {
        "id": number,
        "type": "stat" if is_figure else "timeseries",
        "title": name,
        "gridPos": place,
        "datasource": _DATA_SOURCE,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "expr": query, "legendFormat": legend, "datasource": _DATA_SOURCE}
            for at, (query, legend) in enumerate(queries)
        ],
    }


def _data_source() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}


def _variable(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": _DATA_SOURCE,
        "query": VARIABLES[name],
        "refresh": 2,
        "includeAll": True,
        "allValue": ".+",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def files() -> dict[str, str]:
    boards = {
        "grafana-cluster.json": dashboard("Kafka cluster", "ottla-cluster", CLUSTER, ("instance", "topic")),
        "grafana-groups.json": dashboard("Kafka consumer groups", "ottla-groups", GROUPS, ("group",)),
        "grafana-pipelines.json": dashboard("Pipelines and servers", "ottla-pipelines", PIPELINES, ()),
    }
    return {name: json.dumps(board, indent=1) + "\n" for name, board in boards.items()}


if __name__ == "__main__":
    for name, text in files().items():
        (ROOT / name).write_text(text)
