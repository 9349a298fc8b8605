"""Reasons for an unhealthy cluster, with the affected partitions."""

from __future__ import annotations

import asyncio

from ottla.client.admin.log_dirs import LogDir
from ottla.client.cluster import Node
from ottla.client.errors import ClientError
from ottla.console.cluster.site import reasons
from ottla.console.cluster.snapshot import Snapshot, Snapshots
from ottla.console.cluster.source import PartitionState, TopicState, Topology


def snapshot(
    *partitions: PartitionState, min_isr: int | None = None, controller: int | None = 0, full: bool = False
) -> Snapshot:
    nodes = {number: Node(number, "kafka", 9092 + number, None) for number in (0, 1)}
    topics = {"orders": TopicState("orders", False, partitions)}
    volumes = {0: [LogDir("/data", None, [], 100, 5 if full else 90)]}
    wanted = {} if min_isr is None else {"orders": min_isr}
    return Snapshot(0.0, Topology("id", controller, nodes, topics), {}, volumes, wanted)


def texts(found: Snapshot) -> list[str]:
    return [f"{each.severity}: {each.text}" for each in reasons(found)]


def test_nothing_is_said_of_a_cluster_that_is_well() -> None:
    assert texts(snapshot(PartitionState(0, 0, (0, 1), (0, 1)), min_isr=2)) == []


def test_a_partition_below_min_isr_is_named_with_who_is_missing() -> None:
    assert texts(snapshot(PartitionState(3, 0, (0, 1, 2), (0,)), min_isr=2)) == [
        "error: Broker 2 is down, but replicas are assigned to it.",
        "error: Below min.insync.replicas, hence not written with acks=all: 1 partition: "
        "orders-3 (1 in sync, 2 needed; broker 2 is down; broker 1 is up, but behind).",
        "warning: Replicas that are not in sync: 1 partition affected.",
    ]


def test_a_replica_that_is_behind_is_named_where_there_are_still_enough() -> None:
    assert texts(snapshot(PartitionState(0, 0, (0, 1), (0,)), min_isr=1)) == [
        "warning: Replicas that are not in sync: 1 partition affected: orders-0 (broker 1 is up, but behind)."
    ]


def test_a_partition_without_a_leader_is_named_once() -> None:
    found = texts(snapshot(PartitionState(0, None, (2, 3), (2,)), min_isr=2))
    assert found[0] == (
        "error: Without a leader, hence neither written nor read: 1 partition: orders-0 (brokers 2, 3 are down)."
    )
    assert not any("Below min.insync.replicas" in each for each in found)


def test_more_than_a_few_are_counted_and_topics_of_others_are_not_named() -> None:
    many = snapshot(*(PartitionState(number, 0, (0, 1), (0,)) for number in range(9)), min_isr=2)
    assert "9 partitions: orders-0 (" in texts(many)[0]
    assert texts(many)[0].endswith("4 more.")
    [first, *_] = reasons(many, lambda topic: False)
    assert first.text == "Below min.insync.replicas, hence not written with acks=all: 9 partitions."


def test_a_controller_that_is_missing_and_a_full_disk_are_reasons() -> None:
    found = texts(snapshot(controller=None, full=True))
    assert found[0].startswith("error: The cluster names no controller")
    assert found[1] == "warning: Broker 0: the disk of /data is 95% full."


def test_a_cluster_that_does_not_answer_is_said_to_be_silent_until_it_answers() -> None:
    failures = [False]

    async def take() -> Snapshot:
        if failures[0]:
            raise ClientError("nobody is there")
        return snapshot()

    async def look() -> None:
        snapshots = Snapshots(take, fresh_seconds=0, silence_seconds=0.05)
        patient = Snapshots(take, fresh_seconds=0, silence_seconds=60)
        shown = await snapshots.current()
        await patient.current()
        assert snapshots.silent_seconds is None
        failures[0] = True
        await patient.current()
        assert patient.silent_seconds is None  # a single failure is not reported
        while (silent := snapshots.silent_seconds) is None:
            assert await snapshots.current() is shown
        [said] = reasons(shown, silent_seconds=silent)
        assert said.severity == "error"
        assert said.text.startswith("The cluster has not answered for ")
        failures[0] = False
        await snapshots.renewed()
        assert snapshots.silent_seconds is None

    asyncio.run(asyncio.wait_for(look(), 30))
