"""Transactional offsets: pending until the marker, and their interaction with plain commits."""

from __future__ import annotations

import pytest

from ottla.coordinator.groups.offsets import OffsetToCommit
from ottla.coordinator.runtime import ProducerEpoch, partition_for
from ottla.protocol.errors import ErrorCode, KafkaError
from tests.coordinator.bench import Bench
from tests.coordinator.groups.test_group_coordinator import run
from tests.coordinator.groups.test_offsets import commit, fetched

NONE = ErrorCode.NONE
PRODUCER = ProducerEpoch(7, 0)


def commit_in_transaction(
    b: Bench, offset: int, producer: ProducerEpoch = PRODUCER, **who: object
) -> ErrorCode:
    offsets = [OffsetToCommit("t", 0, offset)]
    (error,) = b.groups.offsets.commit_transactional("g", producer, offsets, **who)  # type: ignore[arg-type]
    return error


def end(b: Bench, *, commit: bool, producer: ProducerEpoch = PRODUCER) -> None:
    partition = partition_for("g", b.groups.runtime.partition_count)
    b.log.append_marker(partition, *producer, commit=commit)
    b.groups.offsets.end_transaction(partition, producer.producer_id, commit)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("outcome", [True, False])
def test_pending_until_the_marker(outcome: bool, restart: bool) -> None:
    @run
    async def check() -> None:
        b = await Bench().lead()
        assert commit_in_transaction(b, 5) is NONE
        if restart:
            await b.restart()
        assert fetched(b) == {}
        assert b.groups.offsets.is_pending("g", "t", 0)
        assert not b.groups.offsets.is_pending("g", "t", 1)
        end(b, commit=outcome)
        if restart:
            await b.restart()
        assert fetched(b) == ({("t", 0): 5} if outcome else {})
        assert not b.groups.offsets.is_pending("g", "t", 0)

    check()


@pytest.mark.parametrize("restart", [False, True])
def test_a_later_plain_commit_wins(restart: bool) -> None:
    @run
    async def check() -> None:
        b = await Bench().lead()
        assert commit_in_transaction(b, 5) is NONE
        assert await commit(b, offset=9) is NONE
        if restart:
            await b.restart()
        assert b.groups.offsets.is_pending("g", "t", 0)
        end(b, commit=True)
        assert fetched(b) == {("t", 0): 9}

    check()


@run
async def test_an_earlier_plain_commit_does_not() -> None:
    b = await Bench().lead()
    assert await commit(b, offset=9) is NONE
    assert commit_in_transaction(b, 5) is NONE
    assert fetched(b) == {("t", 0): 9}
    end(b, commit=True)
    assert fetched(b) == {("t", 0): 5}
    await b.restart()
    assert fetched(b) == {("t", 0): 5}


@run
async def test_producers_do_not_end_each_others_offsets() -> None:
    b = await Bench().lead()
    other = ProducerEpoch(8, 0)
    assert commit_in_transaction(b, 5) is NONE
    assert commit_in_transaction(b, 6, other) is NONE
    end(b, commit=True, producer=other)
    assert fetched(b) == {("t", 0): 6}
    assert b.groups.offsets.is_pending("g", "t", 0)
    end(b, commit=False)
    assert fetched(b) == {("t", 0): 6}


@run
async def test_members_are_checked_where_they_are_named() -> None:
    b = await Bench().lead()
    assert commit_in_transaction(b, 1, generation_id=4, member_id="m") is ErrorCode.ILLEGAL_GENERATION
    asked = await b.join(known=True)
    joining = b.join(member_id=asked.member_id, known=True)
    await b.clock.run()
    joined = await joining
    member, generation = joined.member_id, joined.generation_id
    assert commit_in_transaction(b, 1, member_id=member, generation_id=generation) is NONE
    wrong = commit_in_transaction(b, 1, member_id=member, generation_id=generation - 1)
    assert wrong is ErrorCode.ILLEGAL_GENERATION
    stranger = commit_in_transaction(b, 1, member_id="stranger", generation_id=generation)
    assert stranger is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_in_transaction(b, 1) is NONE  # an old producer that names no member


@run
async def test_what_cannot_be_written_is_not_pending() -> None:
    b = await Bench().lead()
    b.log.error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert commit_in_transaction(b, 5) is ErrorCode.NOT_COORDINATOR
    assert not b.groups.offsets.is_pending("g", "t", 0)
