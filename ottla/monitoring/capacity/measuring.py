"""Measure a cluster from outside by comparing offsets, commits and log sizes at two moments."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ottla.client.admin.configs import Resource, describe_many
from ottla.client.admin.log_dirs import describe_log_dirs
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.monitoring.capacity.facts import (
    BrokerFacts,
    ClusterFacts,
    Disk,
    Partition,
    PartitionFacts,
    TopicSettings,
)
from ottla.monitoring.exporter.snapshot import Snapshot, take_snapshot

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
