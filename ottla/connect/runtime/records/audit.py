"""Connectors as tiers of the count audit (`ottla.audit.enable` in the connector config)."""

from __future__ import annotations

import socket
import time
from collections.abc import Collection

from ottla.client.cluster import Cluster
from ottla.client.cluster import TopicPartition as Partition
from ottla.connect.errors import ConnectError
from ottla.connect.runtime.records.topic_records import RawRecords
from ottla.connect.runtime.tasks.task_spec import TaskSpec
from ottla.monitoring.audit.audit_topic import ensure_audit_topic, write_entries
from ottla.monitoring.audit.count_reports import CountReport
from ottla.monitoring.audit.counting import BadAuditOption, PipelineCounter, Tier, parse_tier


def audit_tier(spec: TaskSpec) -> Tier | None:
    """Return the tier, named after the connector by default. Raises ConnectError for an invalid setting."""
    try:
        return parse_tier(spec.config, spec.connector)
    except BadAuditOption as error:
        raise ConnectError(str(error)) from None


def _host(spec: TaskSpec) -> str:
    return f"{socket.gethostname()}/{spec.connector}-{spec.task}"


def counter_of(tier: Tier | None, spec: TaskSpec, without: Collection[str]) -> PipelineCounter | None:
    """Return the counter of a source task, which writes its reports along with its records."""
    return None if tier is None else PipelineCounter(tier, _host(spec), without)


class Delivered:
    """Counts the records that a sink task has delivered, each offset once. Owner: the task.

    After a failure, the new task counts again from the committed offsets. Its reports then replace those of the failed
    task.
    """

    def __init__(self, cluster: Cluster, tier: Tier, spec: TaskSpec) -> None:
        self._cluster = cluster
        self._tier = tier
        self._host = _host(spec)
        self._began_ms = _now_ms()
        self._open: dict[Partition, CountReport] = {}
        self._waiting: list[tuple[Partition, CountReport]] = []  # until the counted records are durable
        self._ends: dict[Partition, int] = {}

    def note(self, records: RawRecords) -> None:
        partition = Partition(records.topic, records.partition)
        end = self._ends.get(partition, 0)
        for offset, timestamp, key, value in zip(
            records.offsets, records.timestamps, records.keys, records.values, strict=True
        ):
            if offset < end:  # the sink has rewound
                continue
            report = self._open.get(partition)
            if report is None:
                report = self._open[partition] = self._report(partition, offset)
            report.note(timestamp, key, value)
            report.end = self._ends[partition] = offset + 1

    def write(self, stored: dict[Partition, int]) -> None:
        """Write the reports of durable records before their offsets are committed."""
        self._waiting += self._open.items()
        self._open = {}
        ready = [report for partition, report in self._waiting if report.end <= stored.get(partition, -1)]
        if not ready:
            return
        for report in ready:
            report.time_ms = _now_ms()
        ensure_audit_topic(self._cluster)
        write_entries(self._cluster, ready)
        self._waiting = [each for each in self._waiting if each[1] not in ready]

    def _report(self, partition: Partition, first: int) -> CountReport:
        topic, number = partition
        tier = self._tier
        return CountReport(
            tier.topic(topic), tier.name, number, first, first, 0, self._host, tier.bucket_ms,
            counter=self._began_ms, has_checksums=tier.has_checksums, topic_id=self._cluster.topic_id(topic).hex(),
        )  # fmt: skip


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
