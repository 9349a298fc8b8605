"""Carrying out a plan: a few partitions at a time, throttled, until all are where they should be."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ottla.cli.client import Client
from ottla.cli.errors import BrokerUnreachable, JobError
from ottla.cli.jobs.rebalance import Change
from ottla.client.admin.configs import ConfigEntry, Resource, describe_many
from ottla.client.admin.log_dirs import describe_log_dirs
from ottla.client.admin.offsets import Partition
from ottla.client.admin.reassignments import (
    elect_leaders,
    keeps_replication_factor,
    list_reassignments,
    reassign,
)
from ottla.client.admin.throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Move,
    clear_broker_throttles,
    clear_topic_throttles,
    moves_of,
    set_throttle,
)

T = TypeVar("T")

_PREFERRED = 0
_POLL = 0.3
_PATIENCE = 60.0  # with a cluster that does not answer while a controller is replaced
_REORDERED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Progress:
    moved: int
    under_way: int
    partitions: int
    copied: int
    bytes: int


class Rebalance:
    """One run. If it is interrupted, moves that have begun go on: the brokers do them, this only starts and watches."""

    def __init__(
        self,
        client: Client,
        changes: Sequence[Change],
        *,
        batch: int,
        throttle: int | None,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._client = client
        self._moves = [change for change in changes if change.added]
        self._reordered = [change for change in changes if not change.added]
        self._batch = batch
        self._throttle = throttle
        self._on_progress = on_progress
        self._begun: list[Change] = []
        self.under_way: set[Partition] = set()
        self._refused: dict[Partition, str] = {}

    def run(self, already_moving: Iterable[Partition] = ()) -> None:
        """Until all has moved. What moves already counts as begun."""
        ongoing = list_reassignments(self._client.cluster)
        self.under_way = {name for name in already_moving if name in ongoing}
        if self._throttle is not None and (self._moves or self.under_way):
            wanted = {_name(change): list(change.wanted) for change in self._moves}
            current = {_name(change): list(change.replicas) for change in self._moves}
            there = set(self._client.cluster.nodes())
            moves = {
                name: Move(move.sources & there, move.destinations & there)
                for name, move in moves_of(ongoing, wanted, current).items()
            }
            set_throttle(self._client.cluster, moves, self._throttle)
        waiting = list(reversed(self._moves))
        while waiting or self.under_way:
            while waiting and len(self.under_way) < self._batch:
                some = [waiting.pop() for _ in range(min(len(waiting), self._batch - len(self.under_way)))]
                self._begin(some)
            self._report()
            time.sleep(_POLL)
            self.under_way &= set(self._patiently(lambda: list_reassignments(self._client.cluster)))
        self._report()
        for first in range(0, len(self._reordered), _REORDERED_AT_ONCE):
            self._begin(self._reordered[first : first + _REORDERED_AT_ONCE])
        if self._refused:
            reasons = "; ".join(f"{topic}-{number}: {why}" for (topic, number), why in self._refused.items())
            raise JobError(f"{len(self._refused)} partitions could not be moved: {reasons}")

    def _begin(self, changes: list[Change]) -> None:
        wanted: dict[Partition, list[int] | None] = {_name(change): list(change.wanted) for change in changes}
        refused = self._patiently(lambda: self._reassign(wanted))
        self._refused |= refused
        begun = [change for change in changes if _name(change) not in refused]
        self._begun += begun
        self.under_way |= {_name(change) for change in begun if change.added}

    def _reassign(self, wanted: dict[Partition, list[int] | None]) -> dict[Partition, str]:
        """Without a change of the replication factor, where the controller can refuse one: the plan may be based on
        metadata that was out of date."""
        cluster = self._client.cluster
        return reassign(cluster, wanted, may_change_replication_factor=not keeps_replication_factor(cluster))

    def _report(self) -> None:
        moved = [change for change in self._begun if change.added and _name(change) not in self.under_way]
        under_way = {_name(change): change for change in self._begun if _name(change) in self.under_way}
        copied = sum(change.bytes_to_copy for change in moved) + self._copied_of(under_way)
        total = sum(change.bytes_to_copy for change in self._moves)
        self._on_progress(
            Progress(len(moved), len(self.under_way), len(self._moves), min(copied, total), total)
        )

    def _copied_of(self, under_way: dict[Partition, Change]) -> int:
        copied = 0
        for broker in {broker for change in under_way.values() for broker in change.added}:
            topics = {change.topic for change in under_way.values() if broker in change.added}
            try:
                directories = describe_log_dirs(self._client.cluster, broker, sorted(topics))
            except JobError:
                continue  # the broker is down or too old: show the rest
            for replica in (each for directory in directories for each in directory.replicas):
                change = under_way.get((replica.topic, replica.partition))
                if change is not None and broker in change.added:
                    copied += min(replica.size, change.size)
        return copied

    def _patiently(self, ask: Callable[[], T]) -> T:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return ask()
            except BrokerUnreachable:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_POLL)
            self._client.cluster.forget_nodes()


def _name(change: Change) -> Partition:
    return change.topic, change.partition


def elect_preferred(client: Client, partitions: Sequence[Partition]) -> list[Partition]:
    """Elect the preferred replicas. Returns the partitions where that failed."""
    if not partitions:
        return []
    outcome = elect_leaders(client.cluster, _PREFERRED, partitions)
    return [name for name, (error, _) in outcome.items() if error not in ("NONE", "ELECTION_NOT_NEEDED")]


def lift_throttles(client: Client, topics: Sequence[str]) -> bool:
    """The throttles of this run and of an interrupted one: rates of brokers, and the replicas that topics name."""
    brokers = [Resource("broker", str(broker)) for broker in client.cluster.nodes()]
    rates = describe_many(client.cluster, brokers).values()
    if not topics or not any(_has(entries, (LEADER_RATE, FOLLOWER_RATE)) for entries in rates):
        return False
    described = describe_many(client.cluster, [Resource("topic", topic) for topic in topics])
    held_back = [
        resource.name
        for resource, entries in described.items()
        if _has(entries, (LEADER_REPLICAS, FOLLOWER_REPLICAS))
    ]
    if held_back:
        clear_broker_throttles(client.cluster, client.cluster.nodes())
        clear_topic_throttles(client.cluster, held_back)
    return bool(held_back)


def _has(entries: Iterable[ConfigEntry], names: Collection[str]) -> bool:
    return any(entry.name in names and entry.source.startswith("DYNAMIC_") for entry in entries)
