"""Counting records per bucket of time, in brokers and pipelines."""

from __future__ import annotations

import socket
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

from ottla.client.admin.configs import Resource, describe_many
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError, check_accepted
from ottla.monitoring.audit.audit_topic import record_of
from ottla.monitoring.audit.committed import CommittedBatch, committed_batches
from ottla.monitoring.audit.count_reports import NO_EPOCH, NO_PARTITION, CountReport
from ottla.monitoring.audit.tier_counts import Position, TierCounts
from ottla.protocol.batch_header import BatchHeader
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

# Count partitions over the wire.
#
# A counter continues where the stored counts end, so records of an unwritten report are counted again. Only committed
# records count: uncommitted ones may be truncated, and would look lost.

_RECORDS_PER_PAGE = 100_000


class Compacted(ClientError):
    """Compacted topics lose records by design: they cannot be balanced."""


@dataclass(frozen=True)
class Tier:
    """Place and name under which topics are counted."""

    name: str
    bucket_ms: int = 600_000
    known_as: str | None = None  # name in the counts, if it differs
    host: str = ""
    has_checksums: bool = True
    counter: int = 0

    def topic(self, name: str) -> str:
        return self.known_as or name


@dataclass(frozen=True)
class CountedPartition:
    """`end` is the end of the committed records, if known."""

    partition: TopicPartition
    topic_id: bytes = ZERO_UUID
    leader_epoch: int = NO_EPOCH
    end: int | None = None


def count_topic(cluster: Cluster, topic: str, tier: Tier, tier_counts: TierCounts) -> Iterator[CountReport]:
    """Yield reports of records that are not in the counts yet, for the caller to write. Raises ClientError."""
    described = {each.name: each for each in cluster.metadata([topic]).topics}.get(topic)
    found = cluster.topics([topic]).get(topic)
    if found is None or described is None:
        raise ClientError(f"Topic '{topic}' does not exist.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if compacted_topics(cluster, [topic]):
        raise Compacted(f"Topic '{topic}' is compacted: its records go by design, and cannot be balanced.")
    epochs = {each.partition_index: each.leader_epoch for each in described.partitions}
    for partition in found.partitions:
        counted = CountedPartition(partition, found.topic_id, epochs.get(partition.partition, NO_EPOCH))
        at = None
        for report in count_partition(cluster, counted, tier, tier_counts):
            at = report.end
            yield report
        if at is None:
            # The time of a tier's last count limits the comparison.
            position = known_position(counted, tier, tier_counts)
            yield new_report(
                tier, counted, position.epoch if position else NO_EPOCH, position.end if position else 0
            )


def compacted_topics(cluster: Cluster, topics: list[str]) -> set[str]:
    """Return the compacted topics. Raises ClientError."""
    found = describe_many(cluster, [Resource("topic", topic) for topic in topics], synonyms=False)
    return {
        resource.name
        for resource, entries in found.items()
        if any(entry.name == "cleanup.policy" and "compact" in (entry.value or "") for entry in entries)
    }


def known_position(counted: CountedPartition, tier: Tier, tier_counts: TierCounts) -> Position | None:
    topic, partition = counted.partition
    return tier_counts.position(tier.topic(topic), tier.name, partition, counted.topic_id.hex())


def count_partition(
    cluster: Cluster,
    counted: CountedPartition,
    tier: Tier,
    tier_counts: TierCounts,
    *,
    check_epoch: bool = True,
) -> Iterator[CountReport]:
    """Yield reports of new records, if any. Raises ClientError.

    `check_epoch`: the leader may have changed since the last count, and the log may be shorter.
    """
    position = known_position(counted, tier, tier_counts)
    start = None if position is None else position.end
    if position is not None and check_epoch and position.epoch != NO_EPOCH:
        start = min(position.end, _end_of_epoch(cluster, counted.partition, position))
    report: CountReport | None = None
    records = 0
    for batch in committed_batches(cluster, counted.partition, start, counted.end):
        epoch = batch.header.partition_leader_epoch
        if report is not None and (report.epoch != epoch or records >= _RECORDS_PER_PAGE):
            yield report
            report, records = None, 0
        if report is None:
            report = new_report(tier, counted, epoch, max(batch.first, batch.header.base_offset))
        records += note_batch(report, batch)
        report.end = min(batch.end, batch.header.next_offset)
    if report is not None:
        yield report


def note_batch(report: CountReport, batch: CommittedBatch) -> int:
    """Add a batch and return its number of records. Without checksums a batch within one bucket is not decoded."""
    header = batch.header
    length = report.bucket_ms
    if (
        batch.counts
        and not report.has_checksums
        and batch.is_whole
        and header.record_count >= 0
        and header.base_timestamp // length == header.max_timestamp // length
    ):
        report.add(header.max_timestamp, header.record_count, header.size)
        return header.record_count
    records = batch.records()
    for record in records:
        report.note(record.timestamp, record.key, record.value)
    return len(records)


def _end_of_epoch(cluster: Cluster, partition: TopicPartition, position: Position) -> int:
    """Return the end of the last counted epoch in the leader's log. An unclean election may have moved it back."""
    asked = OffsetForLeaderPartition(partition=partition.partition, leader_epoch=position.epoch)
    topic = OffsetForLeaderTopic(topic=partition.topic, partitions=[asked])
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])

    def ask() -> int:
        answer = cluster.leader(partition).request(request, OffsetForLeaderEpochResponse)
        [found] = [each for topic in answer.topics for each in topic.partitions]
        check_accepted(f"Partition {partition}", found)
        # The leader does not know the epoch, or only later ones: no counted record is certainly lost.
        return position.end if found.end_offset < 0 else found.end_offset

    return cluster.retrying(ask, [partition.topic])


def new_report(tier: Tier, counted: CountedPartition, epoch: int, first: int) -> CountReport:
    return CountReport(
        tier.topic(counted.partition.topic),
        tier.name,
        counted.partition.partition,
        first,
        first,
        time.time_ns() // 1_000_000,
        tier.host or socket.gethostname(),
        tier.bucket_ms,
        epoch=epoch,
        counted_in=counted.leader_epoch,
        has_checksums=tier.has_checksums,
        counter=tier.counter,
        topic_id=counted.topic_id.hex(),
    )


# Count records that pass a pipeline, and write the counts together with the records.
#
# A pipeline writes its reports to the audit topic of its target cluster, in the same transaction as its
# records if it has one. A report therefore exists exactly if the records do.

ENABLE = "ottla.audit.enable"
_TIER, _KNOWN_AS = "ottla.audit.tier", "ottla.audit.known.as"
_BUCKET, _CHECKSUMS = "ottla.audit.bucket.ms", "ottla.audit.checksums.enable"
#: Audit settings of every kind of pipeline.
AUDIT_OPTIONS = (ENABLE, _TIER, _KNOWN_AS, _BUCKET, _CHECKSUMS)


class BadAuditOption(ValueError):
    """An invalid setting. The message is one sentence that names it."""


def parse_tier(given: Mapping[str, str], default_tier: str) -> Tier | None:
    """Return None unless the audit is on. Raises BadAuditOption."""
    if not _flag(given, ENABLE, False):
        return None
    bucket = given.get(_BUCKET, "600000").strip()
    if not bucket.isdecimal() or not int(bucket):
        raise BadAuditOption(f"{_BUCKET} must be a number of milliseconds, not '{bucket}'.")
    name = given.get(_TIER, default_tier).strip()
    if not name:
        raise BadAuditOption(f"{_TIER} is empty. Set a name for this pipeline.")
    known_as = given.get(_KNOWN_AS, "").strip() or None
    return Tier(name, int(bucket), known_as, has_checksums=_flag(given, _CHECKSUMS, True))


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise BadAuditOption(f"{name} must be true or false, not '{text}'.")
    return text == "true"


class ReportColumns(NamedTuple):
    """Reports as records to write."""

    keys: list[bytes]
    values: list[bytes]


class PipelineCounter:
    """Records that passed since the last reports were taken. Owner: one task, in one thread."""

    def __init__(self, tier: Tier, host: str, without: Collection[str] = ()) -> None:
        """`without`: the pipeline's internal topics, which are not counted."""
        self._tier = tier
        self._host = host
        self._without = frozenset(without)
        self._reports: dict[str, CountReport] = {}

    def note(self, topic: str, keys: Any | None, values: Any, timestamps: Any) -> None:
        """Count Arrow columns: keys and values as text or bytes, timestamps as a numpy array of milliseconds."""
        if topic in self._without:
            return
        report = self._report(topic)
        listed: Iterable[Any] = repeat(None) if keys is None else keys.to_pylist()
        for at, key, value in zip(timestamps.tolist(), listed, values.to_pylist(), strict=False):
            report.note(at, _bytes(key), _bytes(value))

    def note_batch(self, topic: str, batch: Any, header: BatchHeader) -> None:
        note_batch(
            self._report(topic),
            CommittedBatch(True, header, batch, 0, header.base_offset, header.next_offset),
        )

    def _report(self, topic: str) -> CountReport:
        report = self._reports.get(topic)
        if report is None:
            tier = self._tier
            report = self._reports[topic] = CountReport(
                tier.topic(topic),
                tier.name,
                NO_PARTITION,
                -1,
                -1,
                0,
                self._host,
                tier.bucket_ms,
                has_checksums=tier.has_checksums,
            )
        return report

    def take(self) -> list[CountReport]:
        reports, self._reports = list(self._reports.values()), {}
        now_ms = time.time_ns() // 1_000_000
        for report in reports:
            report.time_ms = now_ms
        return [report for report in reports if report.records]

    def take_columns(self) -> ReportColumns:
        records = [record_of(report) for report in self.take()]
        return ReportColumns([each.key or b"" for each in records], [each.value or b"" for each in records])


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
