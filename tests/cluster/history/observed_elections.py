"""Leaders and ISRs of every partition over time, from the cluster's writes to ZooKeeper."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import NamedTuple, Self

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from ottla.cluster.image.change_notifications import CHANGES, decode_change, sequence_of
from ottla.testing import ZooKeeper


class State(NamedTuple):
    at: float  # wall clock of ZooKeeper's leader
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


class UncleanElection(NamedTuple):
    partition: int
    elected: int
    epoch: int
    left_isr_at: float  # time when the elected replica was last in sync
    at: float


def unclean_elections(states: Iterable[State]) -> list[UncleanElection]:
    """Return the elections of out-of-sync replicas. `states` must be in order."""
    found: list[UncleanElection] = []
    before: dict[int, State] = {}
    began: dict[int, float] = {}
    left: dict[tuple[int, int], float] = {}  # time when a replica left a partition's ISR
    for state in states:
        previous = before.get(state.partition)
        if previous is None:
            began[state.partition] = state.at
        else:
            if state.leader not in (-1, *previous.isr):
                since = left.get((state.partition, state.leader), began[state.partition])
                found.append(
                    UncleanElection(state.partition, state.leader, state.leader_epoch, since, state.at)
                )
            for replica in set(previous.isr) - set(state.isr):
                left[state.partition, replica] = state.at
        before[state.partition] = state
    return found


class ElectionsSeen:
    """Follows a topic's states in its own thread while the context is active."""

    def __init__(self, zookeeper: ZooKeeper, topic: str) -> None:
        self._topic = topic
        self._client = KazooClient(zookeeper.connect, timeout=30)
        self.states: list[State] = []
        self._last = -1
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stopping.wait(0.2):
            try:
                self.catch_up()
            except (KazooException, KazooTimeoutError):
                continue  # the ensemble is under attack

    def catch_up(self) -> None:
        for number, name in sorted((sequence_of(name), name) for name in self._client.get_children(CHANGES)):
            if number <= self._last:
                continue
            assert self._last in (-1, number - 1), f"changes {self._last + 1} to {number - 1} were not seen"
            data, stat = self._client.get(f"{CHANGES}/{name}")
            self.states += [
                State(
                    stat.ctime / 1000,
                    each.partition,
                    each.state.leader,
                    each.state.leader_epoch,
                    each.state.isr,
                )
                for each in decode_change(data).partitions
                if each.topic == self._topic
            ]
            self._last = number

    def __enter__(self) -> Self:
        self._client.start(30)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        deadline = time.monotonic() + 30
        while kind is None:
            try:
                self.catch_up()
                break
            except (KazooException, KazooTimeoutError):
                assert time.monotonic() < deadline, "ZooKeeper does not answer"
        self._client.stop()
        self._client.close()
