"""Measure the throughput of one partition by writing and reading a temporary topic."""

from __future__ import annotations

import time
import uuid
from contextlib import suppress

from ottla.client.admin.topics import create_topic, delete_topics
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError, error_code
from ottla.client.fetch import FetchOptions, PartitionFetcher
from ottla.protocol.batch_header import LOG_OVERHEAD, read_header
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.records import Record, build_batch

_ALL = -1
_LAST_WITH_NAMES = 12
_RECORDS, _RECORD_BYTES = 900, 1024  # a batch below message.max.bytes


def probe(cluster: Cluster, seconds: float, replication_factor: int | None = None) -> tuple[float, float]:
    """Return the bytes per second of one partition: written by one producer with acks=all, and read by one consumer.

    Raises ClientError. Deletes the topic afterwards.
    """
    topic = f"ottla-probe-{uuid.uuid4().hex[:12]}"
    create_topic(cluster, topic, partitions=1, replication_factor=replication_factor)
    try:
        cluster.retrying(lambda: cluster.leader(TopicPartition(topic, 0)), [topic])
        produced, produce_rate = _write(cluster, topic, seconds)
        return produce_rate, _read(cluster, topic, produced)
    finally:
        with suppress(ClientError):
            delete_topics(cluster, [topic])


def _write(cluster: Cluster, topic: str, seconds: float) -> tuple[int, float]:
    place = TopicPartition(topic, 0)
    batch = build_batch([Record(0, 1, None, bytes(_RECORD_BYTES)) for _ in range(_RECORDS)])
    topic_id = cluster.topic_id(topic)
    request = ProduceRequest(
        acks=_ALL,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                topic_id=topic_id,
                partition_data=[PartitionProduceData(index=0, records=batch)],
            )
        ],
    )
    version = _LAST_WITH_NAMES if topic_id == ZERO_UUID else None
    end = count = 0
    began = time.monotonic()
    while time.monotonic() - began < seconds or not count:
        answer = cluster.leader(place).request(request, ProduceResponse, max_version=version)
        part = answer.responses[0].partition_responses[0]
        code = error_code(part.error_code)
        if code != ErrorCode.NONE:
            raise ClientError(f"The probe cannot be written: {code.name}.", code)
        end, count = part.base_offset + _RECORDS, count + 1
    return end, count * len(batch) / (time.monotonic() - began)


def _read(cluster: Cluster, topic: str, end: int) -> float:
    fetcher = PartitionFetcher(cluster, TopicPartition(topic, 0), FetchOptions())
    offset = size = 0
    began = time.monotonic()
    try:
        while offset < end:
            records = fetcher.fetch(offset).records
            position = 0
            while position + LOG_OVERHEAD <= len(records):
                length = int.from_bytes(records[position + 8 : position + 12], "big") + LOG_OVERHEAD
                if position + length > len(records):
                    break
                offset = read_header(records, position).last_offset + 1
                position += length
            size += position
    finally:
        fetcher.close()
    return size / max(time.monotonic() - began, 1e-6)
