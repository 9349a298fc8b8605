"""Queries of the console's lists. Each has a bounded cost, regardless of the size of the cluster.

`KafkaSource` queries a real cluster; tests use a simulated one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ottla.client.admin.configs import Resource, describe_many
from ottla.client.admin.groups import GroupListing, list_groups
from ottla.client.admin.log_dirs import LogDir, describe_volumes, sizes_on_leaders
from ottla.client.admin.many_groups import committed_by_group
from ottla.client.admin.offsets import Partition, available_offsets, latest_offsets
from ottla.client.admin.share_groups import share_positions
from ottla.client.cluster import Cluster, Node
from ottla.client.errors import ClientError
from ottla.protocol.internal_topics import is_internal

MIN_ISR = "min.insync.replicas"


class PartitionState(NamedTuple):
    number: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class TopicState:
    name: str
    internal: bool
    partitions: tuple[PartitionState, ...]

    @property
    def replication_factor(self) -> int:
        return max((len(each.replicas) for each in self.partitions), default=0)

    @property
    def under_replicated(self) -> int:
        return sum(each.is_under_replicated for each in self.partitions)

    @property
    def offline(self) -> int:
        return sum(each.leader is None for each in self.partitions)


@dataclass(frozen=True, slots=True)
class Topology:
    cluster_id: str
    controller: int | None
    brokers: dict[int, Node]
    topics: dict[str, TopicState]


@dataclass(frozen=True, slots=True)
class Position:
    """A group's position in a partition."""

    offset: int
    end: int | None

    @property
    def lag(self) -> int | None:
        # An offset beyond the end belongs to an earlier topic of that name: nothing is waiting.
        return None if self.end is None else max(self.end - self.offset, 0)


class Source(Protocol):
    def topology(self) -> Topology: ...

    def groups(self) -> list[GroupListing]: ...

    def volumes(self, brokers: Collection[int]) -> dict[int, list[LogDir]]: ...

    def min_isr(self, topics: Sequence[str]) -> dict[str, int]: ...

    def offsets(
        self, partitions: Collection[Partition]
    ) -> tuple[dict[Partition, int], dict[Partition, int]]: ...

    def ends(self, partitions: Collection[Partition]) -> dict[Partition, int]: ...

    def sizes(self, topics: Collection[str], leaders: dict[Partition, int]) -> dict[Partition, int]: ...

    def positions(self, groups: Sequence[GroupListing]) -> dict[str, dict[Partition, Position]]: ...


class KafkaSource:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def topology(self) -> Topology:
        answer = self._cluster.metadata(None)
        topics = {}
        for topic in answer.topics:
            name = topic.name or ""
            partitions = tuple(
                PartitionState(
                    each.partition_index,
                    each.leader_id if each.leader_id >= 0 else None,
                    tuple(each.replica_nodes),
                    tuple(each.isr_nodes),
                )
                for each in sorted(topic.partitions, key=lambda each: each.partition_index)
            )
            if not topic.error_code:
                topics[name] = TopicState(name, topic.is_internal or is_internal(name), partitions)
        return Topology(
            answer.cluster_id or "",
            answer.controller_id if answer.controller_id >= 0 else None,
            self._cluster.nodes(),
            topics,
        )

    def groups(self) -> list[GroupListing]:
        return list_groups(self._cluster)

    def volumes(self, brokers: Collection[int]) -> dict[int, list[LogDir]]:
        found = {}
        for broker in brokers:
            try:
                found[broker] = describe_volumes(self._cluster, broker)
            except ClientError:
                continue  # the broker is down, or access is denied
        return found

    def min_isr(self, topics: Sequence[str]) -> dict[str, int]:
        """Send one DescribeConfigs request, ignoring missing and forbidden topics."""
        found = {}
        try:
            described = describe_many(
                self._cluster, [Resource("topic", each) for each in topics], names=[MIN_ISR], synonyms=False
            )
        except ClientError:
            return {}
        for resource, entries in described.items():
            for entry in entries:
                if entry.name == MIN_ISR and entry.value is not None and entry.value.isdecimal():
                    found[resource.name] = int(entry.value)
        return found

    def offsets(self, partitions: Collection[Partition]) -> tuple[dict[Partition, int], dict[Partition, int]]:
        return available_offsets(self._cluster, partitions) if partitions else ({}, {})

    def ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        if not partitions:
            return {}
        try:
            return latest_offsets(self._cluster, partitions)
        except ClientError:
            return available_offsets(self._cluster, partitions)[1]

    def sizes(self, topics: Collection[str], leaders: dict[Partition, int]) -> dict[Partition, int]:
        return sizes_on_leaders(self._cluster, topics, leaders) if topics else {}

    def positions(self, groups: Sequence[GroupListing]) -> dict[str, dict[Partition, Position]]:
        """Return positions. Coordinators report the lag of share groups; for others it is the distance to the end."""
        shared = [each.group for each in groups if each.type == "Share"]
        committed = committed_by_group(self._cluster, [each.group for each in groups if each.type != "Share"])
        ends = self.ends({partition for offsets in committed.values() for partition in offsets})
        found = {
            group: {partition: Position(offset, ends.get(partition)) for partition, offset in offsets.items()}
            for group, offsets in committed.items()
        }
        for group in shared:
            try:
                found[group] = {
                    (each.topic, each.partition): Position(
                        each.start_offset, None if each.lag is None else each.start_offset + each.lag
                    )
                    for each in share_positions(self._cluster, group)
                    if each.start_offset is not None
                }
            except ClientError:
                continue
        return found
