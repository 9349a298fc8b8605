"""The canary: produces and consumes without end, and reports latency and errors."""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ottla.client.admin.topics import add_partitions, create_topic
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError, error_code
from ottla.client.fetch import FetchOptions, PartitionFetcher
from ottla.client.offsets import EARLIEST, list_offsets
from ottla.monitoring.metrics.text import Histogram, family, labels, summary
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.records import Record, build_batch, read_records

# The canary's topic, with one partition led by each broker.

_REPLICAS = 3
_CONFIGS = {"retention.ms": "3600000", "segment.ms": "600000", "cleanup.policy": "delete"}


def partitions_by_broker(cluster: Cluster, topic: str, replication_factor: int | None) -> dict[int, int]:
    """Return for each broker, live or not, the partition it prefers to lead. New brokers get one.

    Raises ClientError.
    """
    brokers = sorted(cluster.nodes())
    found = _preferred(cluster, topic)
    missing = [broker for broker in brokers if found is None or broker not in found]
    if missing:
        factor = min(replication_factor or _REPLICAS, len(brokers))
        assignment = [replicas(broker, brokers, factor) for broker in missing]
        if found is None:
            try:
                create_topic(cluster, topic, assignment=assignment, configs=_CONFIGS)
            except ClientError as error:
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # another canary was faster
                    raise
        else:
            add_partitions(cluster, topic, _count(cluster, topic) + len(missing), assignment)
        found = cluster.retrying(lambda: _complete(cluster, topic, brokers), [topic])
    assert found is not None
    return found


def replicas(broker: int, brokers: Sequence[int], factor: int) -> list[int]:
    at = brokers.index(broker)
    return [brokers[(at + step) % len(brokers)] for step in range(factor)]


def _preferred(cluster: Cluster, topic: str) -> dict[int, int] | None:
    """Return None if the topic does not exist."""
    [found] = cluster.metadata([topic]).topics
    if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    if found.error_code:
        code = ErrorCode(found.error_code)
        raise ClientError(f"Topic '{topic}' cannot be used: {code.name}.", code)
    by_broker: dict[int, int] = {}
    for each in sorted(found.partitions, key=lambda partition: partition.partition_index):
        if each.replica_nodes:
            by_broker.setdefault(each.replica_nodes[0], each.partition_index)
    return by_broker


def _complete(cluster: Cluster, topic: str, brokers: Sequence[int]) -> dict[int, int]:
    found = _preferred(cluster, topic)
    if found is None or any(broker not in found for broker in brokers):
        raise ClientError(f"Topic '{topic}' is not ready yet.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return found


def _count(cluster: Cluster, topic: str) -> int:
    return len(cluster.metadata([topic]).topics[0].partitions)


# One canary round: write records to each broker's partition with acks=all, and read them back.
#
# Records acknowledged in the last rounds are read once more, because an election may lose a record that was readable.

_ALL = -1
_LAST_WITH_NAMES = 12  # of Produce
# Records of each partition that are checked again, before retention deletes them.
_REMEMBERED = 1000
_REMEMBERED_SECONDS = 600.0
_SEQUENCE = struct.Struct(">q")


@dataclass
class BrokerFigures:
    """Totals of all rounds, by the partition's usual leader."""

    acknowledged: int = 0
    lost: int = 0
    failed: int = 0  # unacknowledged records
    is_up: bool = False
    error: str | None = None
    write_latency: Histogram = field(default_factory=Histogram)  # time until acknowledgement, in microseconds
    read: Histogram = field(default_factory=Histogram)  # time until read


@dataclass
class Round:
    """Results of one round. Latencies are in milliseconds, from write to read."""

    brokers: int
    acknowledged: int
    lost: int
    failed: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    errors: dict[int, str]


class Canary:
    """Writes and checks records. Used by one thread."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        *,
        records: int = 10,
        size: int = 100,
        replication_factor: int | None = None,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._records = records
        self._padding = b"." * max(0, size - 16 - _SEQUENCE.size)
        self._factor = replication_factor
        self._me = uuid.uuid4().bytes
        self._next = 0
        # By partition: offset → sequence number and time of the write.
        self._kept: dict[int, dict[int, tuple[int, float]]] = {}
        self.figures: dict[int, BrokerFigures] = {}

    def round(self) -> Round:
        """Raises ClientError if no broker can be reached."""
        before = self._totals()
        latencies: list[int] = []
        self._cluster.forget_nodes()
        self._cluster.forget(self._topic)
        partitions = self._cluster.retrying(  # a connection may lead to a broker that has just died
            lambda: partitions_by_broker(self._cluster, self._topic, self._factor), seconds=1.0
        )
        registered = self._cluster.nodes()
        for broker, partition in partitions.items():
            if broker not in registered and broker not in self.figures:
                continue  # removed before this canary started
            figures = self.figures.setdefault(broker, BrokerFigures())
            try:
                latencies += self._round_of(partition, figures)
                figures.is_up = broker in registered
                figures.error = (
                    None if figures.is_up else "It is not registered; another broker leads its partition."
                )
            except ClientError as error:
                figures.is_up, figures.error = False, error.message
        latencies.sort()
        acknowledged, lost, failed = (
            after - earlier for after, earlier in zip(self._totals(), before, strict=True)
        )
        return Round(
            len(registered),
            acknowledged,
            lost,
            failed,
            p50_ms=_at(latencies, 0.5) / 1000,
            p99_ms=_at(latencies, 0.99) / 1000,
            max_ms=_at(latencies, 1.0) / 1000,
            errors={broker: each.error for broker, each in self.figures.items() if each.error is not None},
        )

    def _totals(self) -> tuple[int, int, int]:
        known = self.figures.values()
        return sum(e.acknowledged for e in known), sum(e.lost for e in known), sum(e.failed for e in known)

    def _round_of(self, partition: int, figures: BrokerFigures) -> list[int]:
        began = time.monotonic()
        place = TopicPartition(self._topic, partition)
        first, self._next = self._next, self._next + self._records
        kept = self._kept.setdefault(partition, {})
        self._forget_old(kept, began)
        try:
            base = self._cluster.retrying(lambda: self._write(place, first), [self._topic], seconds=0.5)
        except ClientError:
            figures.failed += self._records
            raise
        # Repeated offsets: the log was truncated, and the earlier records are gone.
        again = [offset for offset in kept if offset >= base]
        figures.lost += len(again)
        for offset in again:
            del kept[offset]
        figures.acknowledged += self._records
        figures.write_latency.add(_microseconds(began), self._records)
        kept.update({base + at: (first + at, began) for at in range(self._records)})
        found = self._read(place, min(kept), base + self._records)
        read = _microseconds(began)
        lost = [offset for offset, (number, _) in kept.items() if found.get(offset) != number]
        figures.lost += len(lost)
        for offset in lost:
            del kept[offset]
        figures.read.add(read, self._records)
        return [read] * self._records

    @staticmethod
    def _forget_old(kept: dict[int, tuple[int, float]], now: float) -> None:
        while kept and (len(kept) > _REMEMBERED or next(iter(kept.values()))[1] < now - _REMEMBERED_SECONDS):
            del kept[next(iter(kept))]

    def _write(self, place: TopicPartition, first: int) -> int:
        now = time.time_ns() // 1_000_000
        records = [
            Record(0, now, None, self._me + _SEQUENCE.pack(first + at) + self._padding)
            for at in range(self._records)
        ]
        self._cluster.look_up([self._topic])
        leader, topic_id = self._cluster.leader(place), self._cluster.topic_id(self._topic)
        data = PartitionProduceData(index=place.partition, records=build_batch(records))
        request = ProduceRequest(
            acks=_ALL,
            timeout_ms=int(self._cluster.settings.request_timeout * 1000),
            topic_data=[TopicProduceData(name=self._topic, topic_id=topic_id, partition_data=[data])],
        )
        version = _LAST_WITH_NAMES if topic_id == ZERO_UUID else None
        answer = leader.request(request, ProduceResponse, max_version=version)
        part = answer.responses[0].partition_responses[0]
        code = error_code(part.error_code)
        if code != ErrorCode.NONE:
            raise ClientError(f"Partition {place} cannot be written: {code.name}.", code)
        return part.base_offset

    def _read(self, place: TopicPartition, start: int, end: int) -> dict[int, int]:
        found: dict[int, int] = {}
        offset = start
        fetcher = PartitionFetcher(self._cluster, place, FetchOptions(max_wait_ms=200))
        deadline = time.monotonic() + self._cluster.settings.request_timeout
        try:
            while offset < end and time.monotonic() < deadline:
                try:
                    fetched = fetcher.fetch(offset)
                except ClientError as error:
                    if error.code != ErrorCode.OFFSET_OUT_OF_RANGE or offset >= end - self._records:
                        raise
                    # The log starts after the remembered offset, or it was truncated and has grown again.
                    begins = list_offsets(self._cluster, {place: EARLIEST})[place].offset
                    offset = begins if begins > offset else end - self._records
                    continue
                for header, records in read_records(fetched.records):
                    for record in records:
                        value = record.value or b""
                        if record.offset < offset:
                            continue  # deleted, but part of an existing batch
                        if value[:16] == self._me and len(value) >= 16 + _SEQUENCE.size:
                            found[record.offset] = _SEQUENCE.unpack_from(value, 16)[0]
                    offset = header.last_offset + 1
        finally:
            fetcher.close()
        return found

    def lines(self) -> Iterator[str]:
        known = [(labels(broker=broker), each) for broker, each in sorted(self.figures.items())]
        name = "ottla_canary"
        counts = {
            "acknowledged": "Records that were acknowledged.",
            "lost": "Records that were acknowledged and are gone.",
            "failed": "Records that were not acknowledged.",
        }
        for count, about in counts.items():
            samples = ((label, getattr(each, count)) for label, each in known)
            yield from family(f"{name}_{count}_total", "counter", about, samples)
        yield from family(
            f"{name}_up",
            "gauge",
            "1 if the last round went through this broker.",
            ((label, int(each.is_up)) for label, each in known),
        )
        yield from summary(
            f"{name}_latency_ms",
            "From writing a record to reading it.",
            {label: each.read for label, each in known},
            scale=0.001,
        )
        yield from summary(
            f"{name}_produce_latency_ms",
            "From writing a record to its acknowledgement.",
            {label: each.write_latency for label, each in known},
            scale=0.001,
        )

    def rotate(self) -> None:
        for each in self.figures.values():
            each.write_latency.rotate()
            each.read.rotate()


def _microseconds(since: float) -> int:
    return int((time.monotonic() - since) * 1e6)


def _at(values: list[int], share: float) -> int:
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0
