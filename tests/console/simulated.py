"""A large cluster without brokers, behind the interface of the console's lists. It counts the calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from ottla.client.admin.groups import GroupListing
from ottla.client.admin.log_dirs import LogDir
from ottla.client.admin.offsets import Partition
from ottla.client.cluster import Node
from ottla.client.settings import Settings
from ottla.console.cluster.site import Site
from ottla.console.cluster.source import Calls, PartitionState, Position, TopicState, Topology
from ottla.console.settings import ClusterSettings


class SimulatedCluster:
    def __init__(self, topics: int, partitions: int, groups: int, brokers: int = 12) -> None:
        self.asked: Counter[str] = Counter()
        self.partitions_asked = 0
        self.groups_asked = 0
        self.topics_asked = 0
        nodes = {
            number: Node(number, f"kafka{number}", 9092, f"rack-{number % 3}") for number in range(brokers)
        }
        found = {}
        left = partitions
        for index in range(topics):
            name = f"team-{index % 40:02}.events-{index:05}"
            count = max(1, min(left - (topics - index - 1), 1 + index % 7)) if index < topics - 1 else left
            left -= count
            states = []
            for number in range(count):
                replicas = tuple((index + number + step) % brokers for step in range(3))
                isr = replicas[:2] if (index + number) % 997 == 0 else replicas
                states.append(PartitionState(number, replicas[0], replicas, isr))
            found[name] = TopicState(name, False, tuple(states))
        self._topology = Topology("simulated", 0, nodes, found)
        self._groups = [
            GroupListing(f"group-{index:04}", "Stable", "Consumer", "consumer") for index in range(groups)
        ]
        self._names = list(found)

    def topology(self) -> Topology:
        self.asked["topology"] += 1
        return self._topology

    def groups(self) -> list[GroupListing]:
        self.asked["groups"] += 1
        return self._groups

    def volumes(self, brokers: Collection[int]) -> dict[int, list[LogDir]]:
        self.asked["volumes"] += 1
        return {each: [LogDir("/data", None, [], 1 << 40, 1 << 39)] for each in brokers}

    def min_isr(self, topics: Sequence[str]) -> dict[str, int]:
        self.asked["min_isr"] += 1
        self.topics_asked += len(topics)
        return dict.fromkeys(topics, 2)

    def offsets(self, partitions: Collection[Partition]) -> tuple[dict[Partition, int], dict[Partition, int]]:
        self.asked["offsets"] += 1
        self.partitions_asked += len(partitions)
        return dict.fromkeys(partitions, 0), dict.fromkeys(partitions, 1000)

    def ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        self.asked["ends"] += 1
        self.partitions_asked += len(partitions)
        return dict.fromkeys(partitions, 1000)

    def sizes(self, topics: Collection[str], leaders: dict[Partition, int]) -> dict[Partition, int]:
        self.asked["sizes"] += 1
        return dict.fromkeys(leaders, 1 << 20)

    def positions(self, groups: Sequence[GroupListing]) -> dict[str, dict[Partition, Position]]:
        self.asked["positions"] += 1
        self.groups_asked += len(groups)
        return {
            each.group: {(self._names[index], 0): Position(900, 1000)} for index, each in enumerate(groups)
        }


class _NoCluster:
    def close(self) -> None:
        pass


def simulated_site(cluster: SimulatedCluster, **options: Any) -> Site:
    calls = Calls(Settings((("nowhere", 1),)), make=lambda _: _NoCluster())  # type: ignore[arg-type, return-value]
    settings = ClusterSettings("local", {"bootstrap.servers": "nowhere:1"})
    return Site(settings, calls=calls, source=lambda _: cluster, **options)
