"""Tools write to ZooKeeper behind the brokers' backs, as Kafka's did until 2.8 and others still do."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ottla.cluster.image.change_notifications import CHANGES
from ottla.metadata import nodes
from ottla.metadata.stores.store import NodeStore
from tests.cluster.members import members, until


def topic(assignment: dict[int, list[int]], **more: object) -> bytes:
    """Write a topic's znode like Kafka 2.8, without a topic id."""
    fields = {"version": 2, "partitions": assignment, "adding_replicas": {}, "removing_replicas": {}}
    return json.dumps({**fields, **more}).encode()


def asked(*partitions: tuple[str, int, list[int]]) -> bytes:
    listed = [{"topic": name, "partition": index, "replicas": wanted} for name, index, wanted in partitions]
    return json.dumps({"version": 1, "partitions": listed}, separators=(",", ":")).encode()


async def until_node(store: NodeStore, path: str, data: bytes | None) -> None:
    """Wait until a znode has this content, or until it is gone if None."""
    deadline = asyncio.get_running_loop().time() + 10
    while True:
        [node] = await store.get_many([path])
        if (node.data if node else None) == data:
            return
        assert asyncio.get_running_loop().time() < deadline, node
        await asyncio.sleep(0.005)


async def test_a_topic_that_a_tool_makes_gets_an_id_and_leaders(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        store = found[0].store
        await store.create(nodes.topic_config_path("t"), nodes.encode_config({"retention.ms": "1000"}))
        await store.create(nodes.topic_path("t"), topic({0: [1, 2], 1: [2, 0]}))
        await until(lambda: all(("t", 1) in m.image.partitions for m in found))
        await until(lambda: all(m.state("t", 0) == (1, 0, (1, 2)) for m in found))
        await until(lambda: all(m.state("t", 1) == (2, 0, (2, 0)) for m in found))
        [topic_id] = {member.image.topics["t"].topic_id for member in found}
        assert topic_id != nodes.ZERO_UUID
        assert nodes.decode_topic("t", (await store.get(nodes.topic_path("t"))).data).topic_id == topic_id
        assert all(m.image.topics["t"].configs == {"retention.ms": "1000"} for m in found)
        await until(lambda: found[1].replicas.held["t"].keys() == {0})


async def test_partitions_that_a_tool_adds(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        store = found[0].store
        await found[1].admin.create_topic("t", assignment=[(0, [0, 1])])
        node = await store.get(nodes.topic_path("t"))
        after = {**json.loads(node.data), "partitions": {"0": [0, 1], "1": [2, 1]}}
        await store.set(nodes.topic_path("t"), json.dumps(after).encode(), node.version)
        await until(lambda: all(("t", 1) in m.image.partitions for m in found))
        await until(lambda: all(m.state("t", 1) == (2, 0, (2, 1)) for m in found))
        assert all(m.state("t", 0) == (0, 0, (0, 1)) for m in found)


async def test_what_was_asked_for_while_there_was_no_controller(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        store = found[0].store
        await found[0].admin.create_topic("t", assignment=[(0, [0, 1])])
        await until(lambda: "t" in found[1].image.topics)
        found[0].controller._guard = None
        await found[0].controller.stop()
        await store.create(nodes.topic_path("u"), topic({0: [1, 2]}))
        await store.create(nodes.REASSIGN_PARTITIONS, asked(("t", 0, [1, 0])))
        await store.delete(nodes.CONTROLLER)
        await until(lambda: all(("u", 0) in m.image.partitions for m in found))
        await until(lambda: all(m.image.partitions["t", 0].replicas == (1, 0) for m in found))
        await until(lambda: all(m.state("u") == (1, 0, (1, 2)) for m in found))


async def test_a_tool_moves_partitions_and_sees_it_done(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        store = found[0].store
        await found[0].admin.create_topic("t", assignment=[(0, [0, 1]), (1, [1, 0])])
        await store.create(
            nodes.REASSIGN_PARTITIONS, asked(("t", 0, [2, 1]), ("t", 1, [0, 1]), ("no", 0, [1]))
        )
        await until(lambda: all(m.image.partitions["t", 0].adding_replicas == (2,) for m in found))
        # A change of order takes effect immediately; a request for a missing partition never does.
        await until_node(store, nodes.REASSIGN_PARTITIONS, asked(("t", 0, [2, 1])))
        await until(lambda: all(m.image.partitions["t", 1].replicas == (0, 1) for m in found))
        moving = found[0].image.partitions["t", 0]
        await found[0].states.alter(
            "t", 0, isr=(0, 1, 2), leader_epoch=moving.leader_epoch, partition_epoch=moving.partition_epoch
        )
        await until(lambda: all(m.image.partitions["t", 0].replicas == (2, 1) for m in found))
        await until_node(store, nodes.REASSIGN_PARTITIONS, None)


async def test_a_move_that_is_cancelled_otherwise_is_not_begun_again(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        store = found[0].store
        await found[0].admin.create_topic("t", assignment=[(0, [0, 1])])
        await store.create(nodes.REASSIGN_PARTITIONS, asked(("t", 0, [0, 2])))
        await until(lambda: found[0].image.partitions["t", 0].adding_replicas == (2,))
        assert await found[0].controller.reassigner.alter({("t", 0): None}, {0, 1, 2}) == {}
        await until_node(store, nodes.REASSIGN_PARTITIONS, None)
        assert found[0].image.partitions["t", 0].adding_replicas == ()


async def test_a_tool_lets_preferred_replicas_lead(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        store = found[0].store
        await found[0].admin.create_topic("t", assignment=[(0, [0, 1])])
        key = ("t", 0)
        led = found[0].image.partitions[key]._replace(leader=1, leader_epoch=1)
        await found[0].states.change([key], lambda _: led)
        await store.create(nodes.PREFERRED_REPLICA_ELECTION, asked(("t", 0, []), ("unknown", 3, [])))
        await until(lambda: all(m.state("t") == (0, 2, (0, 1)) for m in found))
        await until_node(store, nodes.PREFERRED_REPLICA_ELECTION, None)


@pytest.mark.parametrize("path", [nodes.REASSIGN_PARTITIONS, nodes.PREFERRED_REPLICA_ELECTION])
async def test_nonsense_is_taken_away(tmp_path: Path, path: str) -> None:
    async with members(tmp_path) as found:
        await found[0].store.create(path, b'{"version":1}')
        await until_node(found[0].store, path, None)
        assert found[0].controller.is_active


async def test_a_tool_deletes_nothing_where_topics_may_not_be_deleted(tmp_path: Path) -> None:
    async with members(tmp_path, delete_topic_enable="false") as found:
        await found[0].admin.create_topic("t", assignment=[(0, [0, 1])])
        await found[0].store.create(nodes.delete_topic_path("t"))
        await until_node(found[0].store, nodes.delete_topic_path("t"), None)
        await found[1].feed.sync()
        assert all("t" in member.image.topics and not member.replicas.deleted for member in found[:2])


async def test_what_brokers_do_by_themselves_is_told_once(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        await found[1].admin.create_topic("t", assignment=[(0, [0, 1])])
        await found[2].admin.create_partitions("t", 2, assignment=[[1, 2]])
        await found[0].store.create(nodes.topic_path("last"), topic({0: [1]}))
        await until(lambda: all(("last", 0) in m.image.partitions for m in found))
        told = await found[0].store.children(CHANGES)
        changes = [json.loads((await found[0].store.get(f"{CHANGES}/{name}")).data) for name in told]
        assert [change["topics"] for change in changes if "topics" in change] == [["t"], ["t"], ["last"]]


async def test_a_configuration_that_is_told_as_before_kafka_0_10_1(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        store = found[0].store
        await found[0].admin.create_topic("t", assignment=[(0, [0, 1])])
        await until(lambda: all("t" in m.image.topics for m in found))
        await store.set(nodes.topic_config_path("t"), nodes.encode_config({"retention.ms": "7"}))
        change = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
        await store.create(f"{nodes.CONFIG_CHANGES}/config_change_", change, sequential=True)
        await until(lambda: all(m.image.topics["t"].configs == {"retention.ms": "7"} for m in found))
