"""The controller: its election, and its reactions to brokers that come and go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla.cluster.image.change_notifications import CHANGES
from ottla.cluster.image.offline_replicas import Unusable, write_unusable
from ottla.metadata import nodes
from ottla.metadata.stores.store import BadVersion, Check, Delete
from tests.cluster.members import Member, members, until


def active(found: list[Member]) -> Member:
    [one] = [member for member in found if member.controller.is_active]
    return one


async def test_the_first_broker_wins_and_all_know(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        assert active(found) is found[0]
        await until(lambda: all(m.image.controller_id == 0 and m.image.controller_epoch == 1 for m in found))
        node = json.loads((await found[0].store.get(nodes.CONTROLLER)).data)
        assert (node["version"], node["brokerid"], node["kraftControllerEpoch"]) == (2, 0, -1)
        assert (await found[0].store.get(nodes.CONTROLLER_EPOCH)).data == b"1"


async def test_a_controller_whose_node_is_deleted_steps_down_and_one_is_elected(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        for member in found[1:]:
            await member.controller.stop()  # otherwise the elected controller could be elected again
        await found[0].store.delete(nodes.CONTROLLER)
        await until(lambda: found[0].image.controller_epoch == 2)
        assert active(found) is found[0]
        await until(lambda: all(m.image.controller_id == 0 for m in found))


async def test_another_one_takes_over_and_moves_what_the_dead_one_led(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        await found[1].admin.create_topic("t", assignment=[(0, [0, 1, 2]), (1, [1, 0, 2])])
        await found[0].vanish()
        rest = found[1:]
        await until(
            lambda: all(m.image.controller_id in (1, 2) and m.image.controller_epoch == 2 for m in rest)
        )
        await until(lambda: all(m.state("t", 0) == (1, 1, (1, 2)) for m in rest))
        # The leader epoch stays the same if the dead broker was a follower.
        await until(lambda: all(m.state("t", 1) == (1, 0, (1, 2)) for m in rest))
        state = json.loads((await found[1].store.get(nodes.partition_state_path("t", 0))).data)
        assert state == {"controller_epoch": 2, "leader": 1, "version": 1, "leader_epoch": 1, "isr": [1, 2]}
        await until(lambda: found[1].replicas.held["t"][0].state.leader == 1)


async def test_a_broker_whose_process_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        await found[0].admin.create_topic("t", assignment=[(0, [2, 1, 0])])
        epoch = found[0].image.brokers[2].epoch
        found[0].controller.broker_gone(2, epoch)
        await until(lambda: found[1].state("t") == (1, 1, (1, 0)))
        # The broker leaves the list immediately, so that no client is sent there.
        await until(lambda: 2 not in found[1].image.brokers)
        await found[2].register()
        await until(lambda: 2 in found[0].controller.live)


async def test_one_that_came_back_is_passed_over_and_one_that_is_new_is_not(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        controller = found[0].controller
        # The other brokers registered just now, for the first time.
        assert controller.returned == set()
        await found[1].admin.create_topic("t", assignment=[(0, [1, 2, 0])])
        epoch = found[0].image.brokers[2].epoch
        controller.broker_gone(2, epoch)
        await until(lambda: 2 not in found[0].image.brokers)
        await found[2].register()
        await until(lambda: controller.returned == {2})


async def test_a_controller_whose_process_is_gone_is_replaced_at_once(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        await found[0].admin.create_topic("t", assignment=[(0, [0, 1, 2])])
        await found[0].feed.stop()  # receives no more notifications, and has given up nothing
        for member in found[1:]:
            member.controller.broker_gone(0, member.image.brokers[0].epoch)
        await until(lambda: any(member.controller.is_active for member in found[1:]))
        await until(lambda: all(member.state("t") == (1, 1, (1, 2)) for member in found[1:]))
        assert sum(member.controller.is_active for member in found[1:]) == 1
        # The old controller still believes that it is in charge, and can do nothing.
        guard = found[0].controller._guard
        assert isinstance(guard, Check)
        with pytest.raises(BadVersion):
            await found[0].store.multi([guard, Delete(nodes.topic_path("t"))])
        found[0].controller.broker_gone(1, found[0].image.brokers[1].epoch)
        await until(lambda: not found[0].controller.is_active)
        assert found[2].state("t") == (1, 1, (1, 2))


async def test_replicas_that_are_offline_neither_lead_nor_are_in_sync(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        await found[0].admin.create_topic("t", assignment=[(0, [2, 1, 0]), (1, [0, 2, 1])])
        await found[0].admin.create_topic("alone", assignment=[(0, [2])])
        topics = found[0].image.topics
        replicas = frozenset(
            {(topics["t"].topic_id, 0), (topics["t"].topic_id, 1), (topics["alone"].topic_id, 0)}
        )
        assert await write_unusable(found[2].store, 2, Unusable(frozenset({"/disk"}), replicas))
        await until(lambda: all(m.state("t", 0) == (1, 1, (1, 0)) for m in found))
        await until(lambda: all(m.state("t", 1) == (0, 0, (0, 1)) for m in found))
        await until(lambda: all(m.state("alone") == (-1, 1, (2,)) for m in found))
        assert all(list(m.image.offline_on(m.image.partitions["t", 0])) == [2] for m in found)
        assert await write_unusable(found[2].store, 2, Unusable())
        await until(lambda: all(m.state("alone") == (2, 2, (2,)) for m in found))
        bells = nodes.LOG_DIR_EVENT_NOTIFICATION
        assert len(await found[0].store.children(bells)) == 2
        await found[0].controller._purge_changes(bells, 0, keep_last=False)
        assert await found[0].store.children(bells) == []


async def test_without_anybody_in_sync_a_partition_waits_for_the_last_one(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        await found[0].admin.create_topic("t", assignment=[(0, [2])])
        await found[2].vanish()
        await until(lambda: found[0].state("t") == (-1, 1, (2,)))
        await found[2].register()
        await until(lambda: found[0].state("t") == (2, 2, (2,)))


async def test_an_unclean_election_happens_where_the_topic_allows_it(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        for name, allowed in (("safe", "false"), ("careless", "true")):
            await found[0].admin.create_topic(
                name, assignment=[(0, [2, 1])], configs={"unclean.leader.election.enable": allowed}
            )
            partition = found[0].image.partitions[name, 0]
            await found[0].states.alter(
                name, 0, isr=(2,), leader_epoch=0, partition_epoch=partition.partition_epoch
            )
        await found[2].vanish()
        await until(lambda: found[0].state("careless") == (1, 1, (1,)))
        await until(lambda: found[0].state("safe") == (-1, 1, (2,)))


async def test_an_unclean_election_waits_until_those_in_sync_are_not_registered_any_more(
    tmp_path: Path,
) -> None:
    async with members(tmp_path) as found:
        config = {"unclean.leader.election.enable": "true"}
        await found[0].admin.create_topic("t", assignment=[(0, [2, 1])], configs=config)
        epoch = found[0].image.partitions["t", 0].partition_epoch
        await found[0].states.alter("t", 0, isr=(2,), leader_epoch=0, partition_epoch=epoch)
        found[0].controller.broker_gone(2, found[0].image.brokers[2].epoch)
        await until(lambda: found[1].state("t") == (-1, 1, (2,)))  # the broker may return in a moment
        await until(lambda: found[1].state("t") == (1, 2, (1,)))
        assert 2 not in found[0].image.brokers


async def test_an_unclean_election_happens_when_it_is_allowed_while_a_partition_is_offline(
    tmp_path: Path,
) -> None:
    async with members(tmp_path) as found:
        for name in ("by-topic", "by-default"):
            await found[0].admin.create_topic(name, assignment=[(0, [2, 1])])
            partition = found[0].image.partitions[name, 0]
            await found[0].states.alter(
                name, 0, isr=(2,), leader_epoch=0, partition_epoch=partition.partition_epoch
            )
        await found[2].vanish()
        await until(lambda: all(found[0].state(name) == (-1, 1, (2,)) for name in ("by-topic", "by-default")))

        def allow(_: Mapping[str, str]) -> dict[str, str]:
            return {"unclean.leader.election.enable": "true"}

        await found[1].admin.alter_topic_configs("by-topic", allow)
        await until(lambda: found[1].state("by-topic") == (1, 2, (1,)))
        assert found[0].state("by-default") == (-1, 1, (2,))
        await found[1].admin.alter_broker_configs(None, allow)
        await until(lambda: found[1].state("by-default") == (1, 2, (1,)))


async def test_leaders_go_back_where_they_belong(tmp_path: Path) -> None:
    settings = {"leader_imbalance_check_interval_seconds": "1"}
    async with members(tmp_path, **settings) as found:
        await found[0].admin.create_topic("t", assignment=[(0, [2, 1]), (1, [1, 0])])
        await found[0].states.change([("t", 0)], lambda each: each._replace(leader=1, leader_epoch=1))
        assert found[0].state("t") == (1, 1, (2, 1))
        await until(lambda: found[1].state("t") == (2, 2, (2, 1)))


async def test_a_topic_that_is_deleted_is_gone_everywhere_and_can_be_created_again(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        await found[2].admin.create_topic("t", 4, 3)
        before = found[2].image.topics["t"].topic_id
        await until(lambda: all("t" in member.replicas.held for member in found))
        await found[1].admin.delete_topic("t")
        assert await found[0].store.children(nodes.DELETE_TOPICS) == []
        assert await found[0].store.children(nodes.TOPICS) == []
        await until(lambda: all("t" not in member.image.topics for member in found))
        await until(lambda: all(member.replicas.deleted == ["t"] for member in found))
        await found[0].admin.create_topic("t", 2, 3)
        await until(
            lambda: all("t" in m.image.topics and m.image.topics["t"].topic_id != before for m in found)
        )


async def test_a_new_controller_finishes_a_deletion(tmp_path: Path) -> None:
    async with members(tmp_path, 2) as found:
        await found[0].admin.create_topic("t", 1, 2)
        await until(lambda: "t" in found[1].image.topics)
        await found[0].controller.resign()  # no controller …
        found[1].controller._tasks[0].cancel()
        await found[0].store.create(nodes.delete_topic_path("t"))
        await until(lambda: "t" not in found[1].image.topics)
        assert await found[1].store.exists(nodes.topic_path("t")) is not None
        found[1].controller.start()  # … until one is elected again
        await until(lambda: not found[1].image.deleting)
        assert await found[1].store.exists(nodes.topic_path("t")) is None


async def test_a_topic_too_large_for_one_transaction_gets_its_states_from_the_controller(
    tmp_path: Path,
) -> None:
    async with members(tmp_path) as found:
        await found[1].admin.create_topic("wide", 3000, 2)
        assert all(each.leader >= 0 for each in found[1].image.topics["wide"].partitions.values())
        await found[2].admin.create_partitions("wide", 6000)
        await until(
            lambda: all(
                len(m.image.topics["wide"].partitions) == 6000
                and all(each.leader >= 0 for each in m.image.topics["wide"].partitions.values())
                for m in found
            )
        )


async def test_thousands_of_leaders_move_in_a_few_writes(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        for number in range(6):
            await found[0].admin.create_topic(f"t{number}", 500, 3)
        written = len(await found[0].store.children(CHANGES))
        await found[2].vanish()
        await until(
            lambda: all(
                each.leader in (0, 1) and 2 not in each.isr for each in found[1].image.partitions.values()
            )
        )
        assert len(await found[0].store.children(CHANGES)) - written <= 3000 / 250 + 3
