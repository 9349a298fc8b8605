"""Render a snapshot with the metric names of kafka_exporter, which lag dashboards and alerts use."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.client.admin.offsets import Partition
from ottla.monitoring.exporter.snapshot import Group, PartitionState, Snapshot
from ottla.monitoring.metrics.text import family, gauge, labels


def exporter_lines(snapshot: Snapshot) -> Iterator[str]:
    yield gauge("kafka_brokers", "Brokers of the cluster.", len(snapshot.brokers))
    yield from family(
        "kafka_broker_info",
        "gauge",
        "Where a broker is.",
        ((labels(address=f"{node.host}:{node.port}", id=node.id), 1) for node in snapshot.brokers.values()),
    )
    yield from _topic_lines(snapshot)
    yield from _group_lines(snapshot)
    yield gauge("ottla_exporter_failures", "Brokers that did not answer.", len(snapshot.failures))


def _topic_lines(snapshot: Snapshot) -> Iterator[str]:
    partitions = sorted(snapshot.partitions.items())
    counts: dict[str, int] = {}
    for (topic, _), _ in partitions:
        counts[topic] = counts.get(topic, 0) + 1
    yield from family(
        "kafka_topic_partitions",
        "gauge",
        "Partitions of a topic.",
        ((labels(topic=topic), count) for topic, count in counts.items()),
    )
    offsets = (
        ("current", "Log end offset.", snapshot.ends),
        ("oldest", "Log start offset.", snapshot.starts),
    )
    for name, about, found in offsets:
        yield from family(
            f"kafka_topic_partition_{name}_offset",
            "gauge",
            about,
            ((_partition(each), offset) for each, offset in sorted(found.items()) if offset >= 0),
        )
    states: dict[str, tuple[str, Callable[[PartitionState], int]]] = {
        "replicas": ("Replicas.", lambda each: len(each.replicas)),
        "in_sync_replica": ("Replicas in sync.", lambda each: len(each.isr)),
        "leader": ("The broker that leads; -1 is none.", lambda each: each.leader),
        "leader_is_preferred": (
            "1 if the first replica leads.",
            lambda each: int(bool(each.replicas) and each.leader == each.replicas[0]),
        ),
        "under_replicated_partition": (
            "1 if a replica is not in sync.",
            lambda each: int(len(each.isr) < len(each.replicas)),
        ),
    }
    for name, (about, value) in states.items():
        yield from family(
            f"kafka_topic_partition_{name}",
            "gauge",
            about,
            ((_partition(each), value(state)) for each, state in partitions),
        )


def _group_lines(snapshot: Snapshot) -> Iterator[str]:
    groups = [snapshot.groups[name] for name in sorted(snapshot.groups)]
    yield from family(
        "kafka_consumergroup_members",
        "gauge",
        "Members of a group.",
        ((labels(consumergroup=group.name), group.members) for group in groups),
    )
    # A deleted topic has no lag.
    known = [
        (group, partition)
        for group in groups
        for partition in sorted(group.offsets)
        if partition in snapshot.partitions
    ]
    lags = {(group.name, partition): snapshot.lag(group, partition) for group, partition in known}
    yield from family(
        "kafka_consumergroup_current_offset",
        "gauge",
        "Committed offset of a group.",
        ((_of_group(group, each), group.offsets[each]) for group, each in known),
    )
    yield from family(
        "kafka_consumergroup_lag",
        "gauge",
        "Messages that a group has yet to read.",
        (
            (_of_group(group, each), lag)
            for group, each in known
            if (lag := lags[group.name, each]) is not None
        ),
    )
    sums: dict[tuple[str, str], list[int]] = {}
    for group, partition in known:
        total = sums.setdefault((group.name, partition[0]), [0, 0])
        total[0] += group.offsets[partition]
        total[1] += lags[group.name, partition] or 0
    of_topics = (("current_offset_sum", "Offsets", 0), ("lag_sum", "Lag", 1))
    for name, about, place in of_topics:
        yield from family(
            f"kafka_consumergroup_{name}",
            "gauge",
            f"{about} of a group, of all partitions of a topic.",
            (
                (labels(consumergroup=group, topic=topic), each[place])
                for (group, topic), each in sums.items()
            ),
        )


def _partition(partition: Partition) -> str:
    return labels(partition=partition[1], topic=partition[0])


def _of_group(group: Group, partition: Partition) -> str:
    return labels(consumergroup=group.name, partition=partition[1], topic=partition[0])
