"""State transitions of a partition during a reassignment."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cluster.reassignment import reassignments
from ottla.metadata import nodes
from ottla.metadata.cluster_image import PartitionImage
from ottla.protocol.errors import ErrorCode, KafkaError
from tests.cluster.members import Member, members, until

LIVE = {1, 2, 3, 4, 5, 6}


def partition(
    *replicas: int, isr: tuple[int, ...] | None = None, leader: int | None = None
) -> PartitionImage:
    return PartitionImage("t", 0, leader or replicas[0], 7, replicas, isr or replicas, partition_epoch=9)


def assigned(state: PartitionImage) -> tuple[tuple[int, ...], ...]:
    return state.replicas, state.adding_replicas, state.removing_replicas


def test_while_it_moves_it_has_the_new_replicas_and_the_old() -> None:
    moving = reassignments.begin(partition(1, 2), [3, 2], LIVE)
    assert assigned(moving) == ((3, 2, 1), (3,), (1,))
    assert (moving.leader, moving.leader_epoch, moving.isr) == (1, 7, (1, 2))
    assert reassignments.origin(moving) == (2, 1)
    assert reassignments.target(moving) == (3, 2)


def test_it_ends_when_all_who_stay_are_in_sync() -> None:
    moving = reassignments.begin(partition(1), [2, 3], LIVE)
    assert reassignments.finish(moving, LIVE) is None
    assert reassignments.finish(moving._replace(isr=(1, 2)), LIVE) is None
    done = reassignments.finish(moving._replace(isr=(1, 2, 3)), LIVE)
    assert done is not None
    assert assigned(done) == ((2, 3), (), ())
    assert (done.leader, done.leader_epoch, done.isr) == (2, 8, (2, 3))


def test_a_leader_that_stays_leads_on() -> None:
    moving = reassignments.begin(partition(1), [3, 2, 1], LIVE)
    done = reassignments.finish(moving._replace(isr=(1, 2, 3)), LIVE)
    assert done is not None
    assert (done.leader, done.leader_epoch, done.isr) == (1, 7, (1, 2, 3))


def test_it_does_not_end_while_nobody_who_stays_is_alive() -> None:
    moving = reassignments.begin(partition(1), [2], LIVE)._replace(isr=(1, 2))
    assert reassignments.finish(moving, {1}) is None


def test_another_order_is_had_at_once() -> None:
    assert assigned(reassignments.begin(partition(1, 2, 3), [3, 1, 2], LIVE)) == ((3, 1, 2), (), ())


def test_a_move_is_changed_on_the_way() -> None:
    moving = reassignments.begin(partition(1, 2), [3, 4], LIVE)._replace(isr=(1, 2, 3), leader=3)
    other = reassignments.begin(moving, [4, 5], LIVE)
    assert assigned(other) == ((4, 5, 1, 2), (4, 5), (1, 2))
    assert (other.leader, other.leader_epoch, other.isr) == (1, 8, (1, 2))


def test_a_cancelled_move_has_the_replicas_from_before() -> None:
    moving = reassignments.begin(partition(1, 2), [3, 4], LIVE)._replace(isr=(1, 2, 4))
    back = reassignments.cancel(moving, LIVE)
    assert assigned(back) == ((1, 2), (), ())
    assert (back.leader, back.leader_epoch, back.isr) == (1, 7, (1, 2))


def test_nothing_is_cancelled_that_would_lose_records() -> None:
    moving = reassignments.begin(partition(1), [2], LIVE)._replace(isr=(2,), leader=2)
    with pytest.raises(KafkaError) as refused:
        reassignments.cancel(moving, LIVE)
    assert refused.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "unclean leader election" in (refused.value.message or "")


def test_what_does_not_move_cannot_be_cancelled() -> None:
    with pytest.raises(KafkaError) as refused:
        reassignments.cancel(partition(1), LIVE)
    assert refused.value.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ([], "Empty replica list"),
        ([1, 1], "Duplicate replica ids"),
        ([1, -2], "Invalid broker id"),
        ([1, 9], "brokers that are not alive. Replica list: 9, live broker list: 1,2,3,4,5,6"),
    ],
)
def test_what_makes_no_sense_is_refused(wanted: list[int], words: str) -> None:
    with pytest.raises(KafkaError) as refused:
        reassignments.check_wanted(partition(1, 2), wanted, LIVE)
    assert refused.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert words in (refused.value.message or "")


def test_a_replica_that_stays_may_be_away() -> None:
    reassignments.check_wanted(partition(1, 2), [1, 2, 3], {1, 3})


def test_the_factor_is_kept_where_that_is_asked_for() -> None:
    with pytest.raises(KafkaError) as refused:
        reassignments.check_wanted(partition(1, 2), [1], LIVE, may_change_factor=False)
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


# With a store


def replicas_known(member: Member) -> tuple[tuple[int, ...], ...]:
    return assigned(member.image.partitions["t", 0])


async def test_any_broker_begins_a_move_and_the_controller_ends_it(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        await found[0].admin.create_topic("t", assignment=[(0, [0]), (1, [1])])
        moves = found[2].controller.reassigner
        assert await moves.alter({("t", 0): [1, 2], ("t", 1): [1, 0]}, {0, 1, 2}) == {}
        await until(lambda: all(replicas_known(each) == ((1, 2, 0), (1, 2), (0,)) for each in found))
        node = nodes.decode_topic("t", (await found[0].store.get(nodes.topic_path("t"))).data)
        assert dict(node.adding_replicas) == {0: (1, 2), 1: (0,)}
        assert dict(node.removing_replicas) == {0: (0,)}
        state = found[0].image.partitions["t", 0]
        await found[0].states.alter(
            "t", 0, isr=(0, 1, 2), leader_epoch=0, partition_epoch=state.partition_epoch
        )
        await until(lambda: all(replicas_known(each) == ((1, 2), (), ()) for each in found))
        assert all(each.state("t", 0) == (1, 1, (1, 2)) for each in found)
        node = nodes.decode_topic("t", (await found[0].store.get(nodes.topic_path("t"))).data)
        assert dict(node.adding_replicas) == {1: (0,)}
        assert dict(node.removing_replicas) == {}


async def test_what_cannot_move_is_told_and_the_rest_moves(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        await found[0].admin.create_topic("t", assignment=[(0, [0]), (1, [1])])
        refused = await found[1].controller.reassigner.alter(
            {("t", 0): [2], ("t", 1): None, ("t", 7): [1], ("u", 0): [1]}, {0, 1, 2}
        )
        assert {key: error.code for key, error in refused.items()} == {
            ("t", 1): ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("u", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert replicas_known(found[1]) == ((2, 0), (2,), (0,))
        with pytest.raises(KafkaError) as in_progress:
            await found[1].admin.create_partitions("t", 3)
        assert in_progress.value.code == ErrorCode.REASSIGNMENT_IN_PROGRESS


async def test_another_controller_ends_what_the_one_before_did_not(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        await found[0].admin.create_topic("t", assignment=[(0, [1])])
        await found[1].controller.reassigner.alter({("t", 0): [2]}, {0, 1, 2})
        await found[0].vanish()
        state = found[1].image.partitions["t", 0]
        await found[1].states.alter("t", 0, isr=(1, 2), leader_epoch=0, partition_epoch=state.partition_epoch)
        await until(lambda: all(replicas_known(each) == ((2,), (), ()) for each in found[1:]))


async def test_who_is_no_replica_any_more_does_not_stay_in_sync(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        await found[0].admin.create_topic("t", assignment=[(0, [0, 1])])
        state = found[0].image.partitions["t", 0]
        await found[0].states.alter(
            "t", 0, isr=(0, 1, 2), leader_epoch=0, partition_epoch=state.partition_epoch
        )
        await until(lambda: found[1].state("t", 0) == (0, 0, (0, 1)))
