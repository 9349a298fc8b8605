"""The audit topic, which stores the counts on any Kafka cluster.

It has one partition, because the order of reports matters.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.produce import produce
from ottla.monitoring.audit.committed import committed_batches
from ottla.monitoring.audit.count_reports import Entry, Round, entry_of
from ottla.monitoring.audit.tier_counts import TierCounts
from ottla.protocol.errors import ErrorCode
from ottla.protocol.record_format import Record

AUDIT_TOPIC = "__ottla_audit"
#: Keeps a batch below the default of `max.message.bytes`.
_BATCH_BYTES = 256 << 10
_MOST_REPLICAS = 3


def ensure_audit_topic(
    cluster: Cluster, topic: str = AUDIT_TOPIC, replication_factor: int | None = None
) -> None:
    """Create the topic. The default replication factor is three, or the number of brokers if smaller."""
    if topic not in cluster.topics([topic]):
        try:
            create_topic(
                cluster,
                topic,
                partitions=1,
                replication_factor=replication_factor or min(_MOST_REPLICAS, max(1, len(cluster.nodes()))),
                configs={"retention.ms": "-1", "cleanup.policy": "delete"},
            )
        except ClientError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
    cluster.retrying(lambda: cluster.leader(TopicPartition(topic, 0)), [topic])


def read_tier_counts(
    cluster: Cluster,
    topic: str = AUDIT_TOPIC,
    *,
    into: TierCounts | None = None,
    known_as: Mapping[str, str] | None = None,
) -> TierCounts:
    """Read all entries, adding them to `into` if given. Raises ClientError.

    `known_as` maps topic names in these counts to the names to use.
    """
    tier_counts = TierCounts() if into is None else into
    for partition in cluster.topics([topic])[topic].partitions:
        for _, entry in read_entries(cluster, partition, None):
            if entry is not None:
                tier_counts.add(renamed(entry, known_as) if known_as else entry)
    return tier_counts


def renamed(entry: Entry, known_as: Mapping[str, str]) -> Entry:
    if isinstance(entry, Round):
        return entry._replace(
            counted={known_as.get(each, each): some for each, some in entry.counted.items()}
        )
    return replace(entry, topic=known_as.get(entry.topic, entry.topic))


class FollowedTierCounts:
    """TierCounts with incremental reads. Used by one thread at a time."""

    def __init__(self, cluster: Cluster, topic: str = AUDIT_TOPIC) -> None:
        self.tier_counts = TierCounts()
        self._cluster = cluster
        self._topic = topic
        self._positions: dict[TopicPartition, int] = {}

    def catch_up(self) -> TierCounts:
        """Read new entries and return the counts. Raises ClientError."""
        found = self._cluster.topics([self._topic]).get(self._topic)
        for partition in found.partitions if found is not None else ():
            for position, entry in read_entries(self._cluster, partition, self._positions.get(partition)):
                self._positions[partition] = position
                if entry is not None:
                    self.tier_counts.add(entry)
        return self.tier_counts


def read_entries(
    cluster: Cluster, partition: TopicPartition, start: int | None
) -> Iterator[tuple[int, Entry | None]]:
    """Yield each entry with the next offset; None for foreign records."""
    for batch in committed_batches(cluster, partition, start):
        for record in batch.records():
            try:
                yield record.offset + 1, entry_of(json.loads(record.value or b""))
            except (ValueError, KeyError, TypeError, AttributeError):
                yield record.offset + 1, None


def write_entries(cluster: Cluster, entries: Iterable[Entry], topic: str = AUDIT_TOPIC) -> None:
    """Write entries in this order. A repeated entry after a lost response counts once.

    Raises ClientError.
    """
    waiting: list[Record] = []
    size = 0
    for entry in entries:
        record = record_of(entry)
        if waiting and size + len(record.value or b"") > _BATCH_BYTES:
            produce(cluster, topic, waiting, 0)
            waiting, size = [], 0
        waiting.append(record)
        size += len(record.value or b"")
    if waiting:
        produce(cluster, topic, waiting, 0)


def record_of(entry: Entry) -> Record:
    now_ms = time.time_ns() // 1_000_000
    return Record(0, now_ms, entry.key.encode(), json.dumps(entry.to_json()).encode())
