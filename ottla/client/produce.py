"""Produce requests, and the partition of a key."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError, TopicNotFound, check_accepted
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.record_format import Record
from ottla.protocol.records import build_batch

# The partition of a key: Kafka's murmur2, as in the Java client.

_SEED = 0x9747B28C
_M = 0x5BD1E995
_R = 24
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the hash as an unsigned 32-bit integer."""
    length = len(data)
    hashed = (_SEED ^ length) & _MASK
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little")
        k = (k * _M) & _MASK
        k ^= k >> _R
        k = (k * _M) & _MASK
        hashed = ((hashed * _M) & _MASK) ^ k
    if whole < length:
        hashed ^= int.from_bytes(data[whole:], "little")
        hashed = (hashed * _M) & _MASK
    hashed ^= hashed >> 13
    hashed = (hashed * _M) & _MASK
    return hashed ^ (hashed >> 15)


def partition_of(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


# Write a few records: all in-sync replicas acknowledge each batch before the call returns.
#
# For interactive tools. Batches have no sequence numbers: after a lost response a batch is sent again, and may be
# duplicated.

_ALL = -1
_LAST_WITH_NAMES = 12


class ProducedRecord(NamedTuple):
    partition: int
    offset: int


def produce(
    cluster: Cluster, topic: str, records: Sequence[Record], partition: int | None = None
) -> list[ProducedRecord]:
    """Write records and return their positions. By default the key selects the partition, as in Kafka's clients.

    The offsets of `records` are ignored. Raises ClientError; TopicNotFound if the topic does not exist.
    """
    count = _partitions(cluster, topic)
    if partition is not None and partition not in range(count):
        raise ClientError(f"Topic '{topic}' has no partition {partition}: it has {count}.")
    any_partition = random.randrange(count)
    by_partition: dict[int, list[int]] = {}
    for index, record in enumerate(records):
        if partition is not None:
            chosen = partition
        else:
            chosen = any_partition if record.key is None else partition_of(record.key, count)
        by_partition.setdefault(chosen, []).append(index)
    placed: dict[int, ProducedRecord] = {}
    for number, indexes in by_partition.items():
        base = _send(cluster, TopicPartition(topic, number), [records[index] for index in indexes])
        placed |= {index: ProducedRecord(number, base + delta) for delta, index in enumerate(indexes)}
    return [placed[index] for index in range(len(records))]


def _partitions(cluster: Cluster, topic: str) -> int:
    found = cluster.topics([topic]).get(topic)
    if found is None:
        raise TopicNotFound(topic)
    return len(found.leaders)


def _send(cluster: Cluster, partition: TopicPartition, records: Iterable[Record]) -> int:
    batch = build_batch(records)

    def send() -> int:
        connection = cluster.leader(partition)
        topic_id = cluster.topic_id(partition.topic)
        request = ProduceRequest(
            acks=_ALL,
            timeout_ms=30_000,
            topic_data=[
                TopicProduceData(
                    name=partition.topic,
                    topic_id=topic_id,
                    partition_data=[PartitionProduceData(index=partition.partition, records=batch)],
                )
            ],
        )
        version = _LAST_WITH_NAMES if topic_id == ZERO_UUID else None
        answer = connection.request(request, ProduceResponse, max_version=version)
        [result] = [each for topic in answer.responses for each in topic.partition_responses]
        check_accepted(f"Topic '{partition.topic}'", result)
        return result.base_offset

    return cluster.retrying(send, [partition.topic])
