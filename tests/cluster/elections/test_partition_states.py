"""Writing partition states to a store that fails at the wrong moment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ottla.cluster.image.change_notifications import notification
from ottla.metadata import nodes
from ottla.metadata.nodes import TopicAssignment
from ottla.metadata.stores.store import BadVersion, Create, Node, NodeStore, StoreError
from tests.cluster.members import Member, members, until


class Unreadable:
    """A store that accepts writes and fails on reads."""

    def __init__(self, store: NodeStore, error: Exception) -> None:
        self._store = store
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        if paths:
            raise self._error
        return []


async def three_of_which_one_has_changed(member: Member) -> list[int | BaseException]:
    """Return the results for the leader of three partitions, the first of which has a stale state."""
    await member.admin.create_topic("t", assignment=[(index, [0, 1]) for index in range(3)])
    path = nodes.partition_state_path("t", 0)
    await member.store.set(path, (await member.store.get(path)).data)
    return await together(member, (0, 1, 2))


async def together(member: Member, indexes: Sequence[int]) -> list[int | BaseException]:
    partitions = [member.image.partitions["t", index] for index in indexes]
    async with asyncio.timeout(30):
        return await asyncio.gather(
            *(
                member.states.alter(
                    "t",
                    partition.partition,
                    isr=(0,),
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                )
                for partition in partitions
            ),
            return_exceptions=True,
        )


async def test_a_state_that_cannot_be_read_again_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    async with members(tmp_path, count=2) as [member, _]:
        member.states._store = Unreadable(member.store, StoreError("the store is away"))
        lost, *written = await three_of_which_one_has_changed(member)
        assert isinstance(lost, BadVersion)
        assert written == [1, 1]
        assert [member.state("t", index)[2] for index in (1, 2)] == [(0,), (0,)]


async def test_everybody_is_answered_whatever_ends_the_writing(tmp_path: Path) -> None:
    async with members(tmp_path, count=2) as [member, _]:
        member.states._store = Unreadable(member.store, RuntimeError("a defect"))
        answers = await three_of_which_one_has_changed(member)
        assert all(isinstance(answer, StoreError) for answer in answers)
        assert await together(member, (1, 2)) == [1, 1], "nothing was written any more"


async def test_first_states_are_written_whatever_there_is_of_the_nodes_above_them(tmp_path: Path) -> None:
    """Covers a topic written by another tool, and a controller killed while it assigned leaders."""
    async with members(tmp_path, count=2) as [member, _]:
        for name, made in (("bare", []), ("begun", [""]), ("torn", ["", "/1"])):
            above = [nodes.partitions_path(name) + each for each in made]
            assignment = nodes.encode_topic(TopicAssignment({0: (0, 1), 1: (1, 0)}, name.encode().ljust(16)))
            topic = Create(nodes.topic_path(name), assignment)
            await member.store.multi([topic, *map(Create, above), notification(topics=[name])])
            await until(lambda name=name: (name, 1) in member.image.partitions)
            await until(lambda name=name: member.image.partitions[name, 1].partition_epoch == 0)
            assert [member.state(name, index) for index in (0, 1)] == [(0, 0, (0, 1)), (1, 0, (1, 0))]
