"""`ottla cluster …`: proposals for the current cluster, and messages for a standalone broker."""

from __future__ import annotations

import pytest

from ottla.cli.errors import JobError
from ottla.cli.jobs.rebalance import ClusterNow, PartitionNow, propose


def now(*partitions: PartitionNow, brokers: int = 3) -> ClusterNow:
    return ClusterNow(dict.fromkeys(range(brokers)), {("t", at): each for at, each in enumerate(partitions)})


def on(*replicas: int, leader: int | None = -1, size: int = 10, moving: bool = False) -> PartitionNow:
    leader = replicas[0] if leader == -1 else leader
    return PartitionNow(replicas, leader, replicas, size, moving)


def test_a_partition_without_a_leader_is_left_alone():
    proposed = propose(now(on(0, leader=None), on(0), on(0), on(0)), tolerance=0.1)
    assert proposed.left_alone == [("t", 0)]
    assert ("t", 0) not in [(change.topic, change.partition) for change in proposed.changes]


def test_a_partition_with_a_replica_on_a_broker_that_is_away_stays_unless_that_is_drained():
    cluster = now(on(0, 7), on(0), on(0), on(0))
    proposed = propose(cluster, tolerance=0.1)
    assert proposed.fixed == [("t", 0)]
    assert all(change.partition != 0 for change in proposed.changes)
    proposed = propose(cluster, drained=[7], tolerance=0.1)
    assert proposed.fixed == []
    assert [7 in change.removed for change in proposed.changes if change.partition == 0] == [True]
    assert proposed.after[7].replicas == 0


def test_what_moves_already_is_not_moved_elsewhere():
    proposed = propose(now(on(0, moving=True), on(0, moving=True), on(0, moving=True)), tolerance=0.1)
    assert proposed.is_empty


def test_leaders_that_are_not_the_preferred_ones_are_elected():
    proposed = propose(now(on(0, 1, leader=1), on(1, 2), on(2, 0)), tolerance=0.1)
    assert proposed.changes == []
    assert proposed.elections == [("t", 0)]
    assert [load.leaders for load in proposed.before.values()] == [0, 2, 1]
    assert [load.leaders for load in proposed.after.values()] == [1, 1, 1]


def test_bytes_to_copy_are_those_of_new_replicas():
    proposed = propose(now(on(0, 1, size=100), on(0, 1, size=100), on(0, 1, size=100)), tolerance=0.1)
    assert proposed.bytes_to_copy == 200
    assert [load.bytes for load in proposed.before.values()] == [300, 300, 0]
    assert [load.bytes for load in proposed.after.values()] == [200, 200, 200]


def test_too_few_brokers_are_one_sentence():
    with pytest.raises(JobError, match=r"t-0 has 3 replicas, and there are 2 brokers to have them"):
        propose(now(on(0, 1, 2)), drained=[2], tolerance=0.1)
    with pytest.raises(JobError, match="There is no broker 9"):
        propose(now(on(0)), drained=[9], tolerance=0.1)


def test_on_a_single_broker_there_is_nothing_to_even_out(ottla, topic):
    said = ottla("cluster", "rebalance", "--topics", topic, "--yes")
    assert said.lines[0].split() == ["BROKER", "RACK", "REPLICAS", "LEADERS", "BYTES"]
    assert said.lines[1].split()[2:4] == ["3", "3"]
    assert said.lines[-1] == "There is nothing to even out."
    plan = ottla("cluster", "rebalance", "--topics", topic, "--dry-run", "--json").json
    assert (plan["version"], plan["partitions"], plan["bytes_to_copy"]) == (1, [], 0)
