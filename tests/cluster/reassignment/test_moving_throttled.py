"""Replicas move under load within their throttle, and stop half-way when the move is cancelled."""

from __future__ import annotations

import contextlib
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest

from ottla.testing import Cluster
from tests.cluster.load import Load, check_nothing_lost
from tests.cluster.reassignment.moving import (
    bytes_of,
    cancel,
    create,
    end_offsets,
    fill,
    logs,
    moving,
    rates,
    tool,
    wait_for_replicas,
    written,
)

pytestmark = [pytest.mark.usefixtures("everybody_back"), pytest.mark.cluster, pytest.mark.timeout(300)]

RATE = 1_000_000
PARTITIONS = 20


def test_twenty_partitions_move_no_faster_than_they_may(cluster: Cluster, tmp_path: Path) -> None:
    sources, away = (
        {index: [index % 2] for index in range(PARTITIONS)},
        {index: [2] for index in range(PARTITIONS)},
    )
    create(cluster, "throttled", list(sources.values()))
    fill(cluster, "throttled", range(1, PARTITIONS), 300)
    file = written(tmp_path / "away.json", "throttled", away)
    with Load(cluster.bootstrap_servers, "throttled", per_second=200) as load:
        load.wait_for(50)
        began = time.monotonic()
        said = tool(cluster, file, "--execute", "--throttle", str(RATE))
        assert f"The inter-broker throttle limit was set to {RATE} B/s" in said
        assert rates(cluster, 2)["follower.replication.throttled.rate"] == str(RATE)
        assert "is still in progress" in tool(cluster, file, "--verify")
        wait_for_replicas(cluster, "throttled", away, seconds=90)
        took = time.monotonic() - began
        load.wait_for(50)
    moved = bytes_of(cluster, 2, "throttled")
    print(
        f"\n{moved / 1e6:.1f} MB moved at {moved / took / 1e6:.2f} MB/s, {RATE / 1e6:.2f} MB/s were allowed"
    )
    assert 0.4 * RATE < moved / took < 1.5 * RATE
    said = tool(cluster, file, "--verify")
    assert said.count("is completed.") == PARTITIONS
    assert rates(cluster, 2) == {}
    assert end_offsets(cluster, "throttled", PARTITIONS)[1:] == [300] * (PARTITIONS - 1)
    check_nothing_lost(cluster, "throttled", load)


def test_a_move_that_is_cancelled_half_way_leaves_everything_as_it_was(
    cluster: Cluster, tmp_path: Path
) -> None:
    sources, away = (
        {index: [index % 2] for index in range(PARTITIONS)},
        {index: [2] for index in range(PARTITIONS)},
    )
    create(cluster, "cancelled", list(sources.values()))
    fill(cluster, "cancelled", range(1, PARTITIONS), 300)
    file = written(tmp_path / "away.json", "cancelled", away)
    with Load(cluster.bootstrap_servers, "cancelled", per_second=200) as load:
        load.wait_for(50)
        tool(cluster, file, "--execute", "--throttle", str(RATE))
        cluster.wait_until(
            lambda: len(moving(cluster, "cancelled")) <= PARTITIONS * 3 // 4, "some have moved", 60
        )
        stopped = moving(cluster, "cancelled")
        assert stopped, "it was over before it could be cancelled"
        cancel(cluster, file)
        assert moving(cluster, "cancelled") == set()
        [described] = cluster.metadata(["cancelled"], broker=cluster.controller()).topics
        now = {each.partition_index: list(each.replica_nodes) for each in described.partitions}
        back = {index for index in now if now[index] == sources[index]}
        assert back
        assert back <= stopped
        assert all(now[index] == [2] for index in now if index not in back)
        wait_for_replicas(cluster, "cancelled", now)
        load.wait_for(50)
    cluster.wait_until(lambda: logs(cluster, 2, "cancelled").isdisjoint(back), "the copies are gone")
    assert rates(cluster, 2) == {}
    assert end_offsets(cluster, "cancelled", PARTITIONS)[1:] == [300] * (PARTITIONS - 1)
    check_nothing_lost(cluster, "cancelled", load)


MANY, MANY_RATE, PER_PARTITION = 200, 3_000_000, 150
BUSY = (0, 77, 199)  # partitions under load while they move


class Watched:
    """Bytes that reach a broker for a topic, sampled ten times a second."""

    def __init__(self, cluster: Cluster, broker: int, topic: str) -> None:
        self._size = lambda: bytes_of(cluster, broker, topic)
        self.samples: list[tuple[float, int]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stopping.wait(0.1):
            with contextlib.suppress(FileNotFoundError):  # a broker is deleting an obsolete replica
                self.samples.append((time.monotonic(), self._size()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stopping.set()
        self._thread.join()

    def fastest(self, seconds: float = 5.0) -> float:
        """Return the highest rate in bytes per second over any window of that many seconds."""
        best, first = 0.0, 0
        for now, size in self.samples:
            while now - self.samples[first + 1][0] > seconds:
                first += 1
            began, had = self.samples[first]
            if now - began >= seconds:
                best = max(best, (size - had) / (now - began))
        return best


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_hundred_partitions_move_under_load_are_stopped_half_way_and_arrive(
    cluster: Cluster, tmp_path: Path
) -> None:
    sources = {index: [index % 2, 1 - index % 2] for index in range(MANY)}
    away = {index: [2, index % 2] for index in range(MANY)}
    create(cluster, "many", list(sources.values()))
    idle = [index for index in range(MANY) if index not in BUSY]
    fill(cluster, "many", idle, PER_PARTITION)
    file = written(tmp_path / "away.json", "many", away)
    with ExitStack() as stack:
        loads = [
            stack.enter_context(Load(cluster.bootstrap_servers, "many", partition, per_second=100))
            for partition in BUSY
        ]
        for load in loads:
            load.wait_for(50)
        watched = stack.enter_context(Watched(cluster, 2, "many"))
        tool(cluster, file, "--execute", "--throttle", str(MANY_RATE))
        cluster.wait_until(lambda: len(moving(cluster, "many")) <= MANY // 2, "half of them have moved", 120)
        stopped = moving(cluster, "many")
        assert stopped, "it was over before it could be cancelled"
        cancel(cluster, file)
        assert moving(cluster, "many") == set()
        [described] = cluster.metadata(["many"], broker=cluster.controller()).topics
        now = {each.partition_index: list(each.replica_nodes) for each in described.partitions}
        back = {index for index in now if now[index] == sources[index]}
        assert back
        assert back <= stopped
        assert all(now[index] == away[index] for index in now if index not in back)
        wait_for_replicas(cluster, "many", now)
        cluster.wait_until(lambda: logs(cluster, 2, "many").isdisjoint(back), "the copies are gone")
        assert rates(cluster, 2) == {}
        for load in loads:
            load.wait_for(50)
        began, had = time.monotonic(), bytes_of(cluster, 2, "many")
        tool(cluster, file, "--execute", "--throttle", str(MANY_RATE))
        wait_for_replicas(cluster, "many", away, seconds=180)
        took = time.monotonic() - began
        moved = bytes_of(cluster, 2, "many") - had
        for load in loads:
            load.wait_for(50)
    assert tool(cluster, file, "--verify").count("is completed.") == MANY
    assert rates(cluster, 2) == {}
    print(
        f"\n{MANY - len(back)} of {MANY} partitions had moved when it was cancelled; then {moved / 1e6:.1f} MB moved "
        f"at {moved / took / 1e6:.2f} MB/s, in the fastest 5 s at {watched.fastest() / 1e6:.2f} MB/s; "
        f"{MANY_RATE / 1e6:.2f} MB/s were allowed. "
        f"Longest gap between acknowledgements: {max(load.longest_gap() for load in loads):.3f} s"
    )
    # Traffic to in-sync replicas is not throttled, so allow a little extra. One second's worth may arrive at once.
    assert watched.fastest() < 1.4 * MANY_RATE
    assert moved / took < 1.2 * MANY_RATE
    ends = end_offsets(cluster, "many", MANY)
    assert [ends[index] for index in idle] == [PER_PARTITION] * len(idle)
    for load in loads:
        check_nothing_lost(cluster, "many", load)
