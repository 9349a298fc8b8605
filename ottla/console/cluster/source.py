"""Sources of snapshots: a cluster asked over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from ottla.client.admin.configs import Resource, describe_many
from ottla.client.admin.groups import GroupListing, committed_by_group, list_groups
from ottla.client.admin.log_dirs import LogDir, describe_volumes, sizes_on_leaders
from ottla.client.admin.offsets import Partition, available_offsets, latest_offsets
from ottla.client.admin.share_groups import share_positions
from ottla.client.cluster import Cluster, Node
from ottla.client.errors import ClientError, Unreachable
from ottla.client.settings import Settings
from ottla.protocol.internal_topics import is_internal

# Run blocking functions of `ottla.client` in threads, with persistent connections.

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 12
_KEPT = 6


class Calls:
    """Invariant: no two threads share a Cluster. Owner: the event loop."""

    def __init__(self, settings: Settings, make: Callable[[Settings], Cluster] = Cluster) -> None:
        self._settings = settings
        self._make = make
        self._threads = ThreadPoolExecutor(_THREADS, "console")
        self._idle: list[Cluster] = []
        self._closed = False

    async def read(
        self, function: Callable[Concatenate[Cluster, P], T], *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Run a function, retrying after a dead connection. Raises ClientError."""

        def call() -> T:
            while True:
                cluster, is_fresh = self._take()
                try:
                    result = function(cluster, *arguments, **options)
                except Unreachable:
                    cluster.close()
                    if is_fresh:
                        raise
                    continue
                except ClientError:
                    self._give_back(cluster)
                    raise
                except BaseException:
                    cluster.close()  # unread responses may still be in flight
                    raise
                self._give_back(cluster)
                return result

        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def change(
        self, function: Callable[Concatenate[Cluster, P], T], *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Run a function once, on a connection that has just answered. Raises ClientError."""

        def alive(cluster: Cluster) -> Callable[[], T]:
            cluster.metadata(())
            return lambda: function(cluster, *arguments, **options)

        def call() -> T:
            while True:
                cluster, is_fresh = self._take()
                try:
                    act = alive(cluster)
                except Unreachable:
                    cluster.close()
                    if is_fresh:
                        raise
                    continue
                try:
                    result = act()
                except BaseException:
                    cluster.close()
                    raise
                self._give_back(cluster)
                return result

        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def run(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run any other blocking function."""
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: function(*arguments, **options)
        )

    def borrow(self) -> Cluster:
        """Return a cluster for a long-lived thread, which has to close it."""
        return self._make(self._settings)

    def close(self) -> None:
        """Close idle connections. Running calls finish and close theirs."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        while self._idle:
            self._idle.pop().close()

    # List operations are atomic, so threads need no lock.

    def _take(self) -> tuple[Cluster, bool]:
        try:
            return self._idle.pop(), False
        except IndexError:
            return self._make(self._settings), True

    def _give_back(self, cluster: Cluster) -> None:
        if len(self._idle) < _KEPT and not self._closed:
            self._idle.append(cluster)
        else:
            cluster.close()


# Queries of the console's lists. Each has a bounded cost, regardless of the size of the cluster.
#
# `KafkaSource` queries a real cluster; tests use a simulated one.

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
