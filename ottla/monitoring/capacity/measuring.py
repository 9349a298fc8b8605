"""Measuring a cluster: its rates, and the throughput of one partition."""

from __future__ import annotations

import re
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from ottla.client.admin.configs import Resource, describe_many
from ottla.client.admin.log_dirs import describe_log_dirs
from ottla.client.admin.topics import create_topic, delete_topics
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError, error_code
from ottla.client.fetch import FetchOptions, PartitionFetcher
from ottla.monitoring.capacity.load import (
    BrokerFacts,
    ClusterFacts,
    Disk,
    Partition,
    PartitionFacts,
    TopicSettings,
)
from ottla.monitoring.exporter import Snapshot, take_snapshot
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

# Measure the throughput of one partition by writing and reading a temporary topic.

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


# Measure a cluster from outside by comparing offsets, commits and log sizes at two moments.

_IDLE = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"
_INFO = re.compile(r'^kafka_server_app_info\{[^}]*broker_id="(\d+)"', re.M)


@dataclass(frozen=True)
class Look:
    """A cluster at one moment."""

    at: float
    snapshot: Snapshot
    sizes: dict[tuple[int, Partition], int]  # by broker and partition
    disks: dict[int, tuple[Disk, ...]]


def look(cluster: Cluster, clock: Callable[[], float] = time.monotonic) -> Look:
    began = clock()
    snapshot = take_snapshot(cluster)
    sizes: dict[tuple[int, Partition], int] = {}
    disks: dict[int, tuple[Disk, ...]] = {}
    for broker in snapshot.brokers:
        try:
            directories = describe_log_dirs(cluster, broker)
        except ClientError as error:
            snapshot.failures.append(f"Broker {broker} does not tell its log directories: {error.message}")
            continue
        disks[broker] = tuple(
            Disk(each.path, each.total_bytes, each.usable_bytes) for each in directories if each.error is None
        )
        for directory in directories:
            for replica in directory.replicas:
                if not replica.is_future:
                    sizes[broker, (replica.topic, replica.partition)] = replica.size
    return Look((began + clock()) / 2, snapshot, sizes, disks)


def facts_between(before: Look, after: Look) -> ClusterFacts:
    """Compute rates between two looks; everything else is from the second one."""
    seconds = max(after.at - before.at, 1e-6)
    now = after.snapshot
    read: dict[Partition, float] = {}
    groups = set()
    partitions: dict[Partition, PartitionFacts] = {}
    for name, group in now.groups.items():
        earlier = before.snapshot.groups.get(name)
        for partition, offset in group.offsets.items():
            grown = offset - earlier.offsets.get(partition, offset) if earlier is not None else 0
            if grown > 0:
                groups.add(name)
                read[partition] = read.get(partition, 0.0) + grown / seconds
    for partition, state in now.partitions.items():
        size = after.sizes.get((state.leader, partition), 0)
        records = now.ends.get(partition, 0) - now.starts.get(partition, 0)
        record_size = size / records if records > 0 else 0.0
        produced = max(
            0, now.ends.get(partition, 0) - before.snapshot.ends.get(partition, now.ends.get(partition, 0))
        )
        grown = size - before.sizes.get((state.leader, partition), size)
        # If retention or compaction removed data in between, the record count is more reliable than the bytes.
        byte_rate = grown / seconds if grown > 0 or not produced else produced * record_size / seconds
        partitions[partition] = PartitionFacts(
            state.leader,
            state.replicas,
            state.isr,
            size,
            max(records, 0),
            max(byte_rate, 0.0),
            produced / seconds,
            read.get(partition, 0.0) * record_size,
        )
    brokers = {
        broker: BrokerFacts(broker, node.rack, after.disks.get(broker, ()))
        for broker, node in now.brokers.items()
    }
    return ClusterFacts(seconds, brokers, partitions, {}, len(groups))


def measure(
    cluster: Cluster, seconds: float, *, sleep: Callable[[float], object] = time.sleep
) -> tuple[ClusterFacts, list[str]]:
    """Return the facts, and messages about missing data. Raises ClientError if no broker responds."""
    before = look(cluster)
    sleep(seconds)
    after = look(cluster)
    facts = facts_between(before, after)
    topics = sorted({topic for topic, _ in facts.partitions})
    failures = [*before.snapshot.failures, *after.snapshot.failures]
    settings = topic_settings(cluster, topics)
    return replace(facts, topics=settings), list(dict.fromkeys(failures))


def topic_settings(cluster: Cluster, topics: Iterable[str]) -> dict[str, TopicSettings]:
    found = describe_many(cluster, [Resource("topic", topic) for topic in topics], synonyms=False)
    return {
        resource.name: settings_of({entry.name: entry.value for entry in entries})
        for resource, entries in found.items()
    }


def settings_of(configs: dict[str, str | None]) -> TopicSettings:
    policy = configs.get("cleanup.policy") or "delete"
    return TopicSettings(
        int(configs.get("min.insync.replicas") or 1),
        _limit(configs.get("retention.ms")) if "delete" in policy else None,
        _limit(configs.get("retention.bytes")) if "delete" in policy else None,
        "compact" in policy,
    )


def _limit(text: str | None) -> int | None:
    value = int(text or -1)
    return value if value >= 0 else None


def read_idle(facts: ClusterFacts, urls: Iterable[str]) -> tuple[ClusterFacts, list[str]]:
    """Add the idle share of brokers from their metrics. Also return messages about unreadable ones."""
    brokers, failures = dict(facts.brokers), []
    for url in urls:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                text = answer.read().decode()
        except (OSError, ValueError) as error:
            failures.append(f"{url} cannot be read: {error}.")
            continue
        broker, idle = _INFO.search(text), re.search(rf"^{_IDLE} (\S+)", text, re.M)
        if broker is None or idle is None or int(broker[1]) not in brokers:
            failures.append(f"{url} does not say which broker it is of, or how idle it is.")
            continue
        brokers[int(broker[1])] = replace(brokers[int(broker[1])], idle=float(idle[1]))
    return replace(facts, brokers=brokers), failures
