"""Committed offsets: permission to commit, storage, expiry."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from ottla.coordinator.groups.base.committed_offsets import (
    CommittedOffset,
    OffsetKey,
    offset_key,
    offset_value,
)
from ottla.coordinator.groups.base.effects import LeavingMember
from ottla.coordinator.groups.classic.group_metadata import read_key
from ottla.coordinator.groups.offsets import OffsetToCommit
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import Record, build_batch
from tests.coordinator.bench import Bench
from tests.coordinator.groups.test_group_coordinator import run

DAY = 24 * 3_600_000
NONE = ErrorCode.NONE


async def commit(
    b: Bench, group_id: str = "g", topic: str = "t", offset: int = 5, **who: object
) -> ErrorCode:
    result = b.groups.offsets.commit(group_id, [OffsetToCommit(topic, 0, offset, 3, "note")], **who)  # type: ignore[arg-type]
    return (await result if isinstance(result, Awaitable) else result)[0]


def fetched(b: Bench, group_id: str = "g") -> dict[tuple[str, int], int]:
    return {
        (topic, partition): committed.offset
        for topic, partitions in b.groups.offsets.fetch(group_id, None)
        for partition, committed in partitions
        if committed is not None
    }


@run
async def test_offsets_are_fetched_as_they_were_committed() -> None:
    b = await Bench().lead()
    offsets = [
        OffsetToCommit("t", 0, 5, 3, "note", b"i" * 16),
        OffsetToCommit("t", 1, 6),
        OffsetToCommit("u", 0, 7, 0, None),
    ]
    assert b.groups.offsets.commit("g", offsets) == [NONE] * 3
    now = b.clock.now_ms
    assert b.groups.offsets.fetch("g", [("u", [0, 1]), ("t", [1, 0]), ("v", [0])]) == [
        ("u", [(0, CommittedOffset(7, 0, "", now)), (1, None)]),
        ("t", [(1, CommittedOffset(6, -1, "", now)), (0, CommittedOffset(5, 3, "note", now, -1, b"i" * 16))]),
        ("v", [(0, None)]),
    ]
    before = b.groups.offsets.fetch("g", None)
    await b.restart()
    assert b.groups.offsets.fetch("g", None) == before
    assert b.groups.offsets.fetch("missing", None) == []
    assert b.groups.offsets.fetch("missing", [("t", [0])]) == [("t", [(0, None)])]


@run
async def test_members_commit_with_their_generation() -> None:
    b = await Bench().lead()
    member = await b.stable()
    assert await commit(b, member_id=member, generation_id=1) is NONE
    assert await commit(b, member_id=member, generation_id=2) is ErrorCode.ILLEGAL_GENERATION
    assert await commit(b, member_id="other", generation_id=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert await commit(b) is ErrorCode.UNKNOWN_MEMBER_ID, "a group with members is theirs"
    b.groups.classic.leave("g", [LeavingMember(member)])
    assert await commit(b) is NONE


@run
async def test_a_commit_of_a_member_needs_its_group() -> None:
    b = await Bench().lead()
    assert await commit(b, member_id="m", generation_id=1) is ErrorCode.ILLEGAL_GENERATION
    told = await commit(b, member_id="m", generation_id=1, unknown_group_error=ErrorCode.GROUP_ID_NOT_FOUND)
    assert told is ErrorCode.GROUP_ID_NOT_FOUND


@run
async def test_offsets_without_members_make_a_simple_group() -> None:
    b = await Bench().lead()
    assert await commit(b, "simple") is NONE
    (listing,) = b.groups.list_groups()
    assert (listing.group_id, listing.protocol_type, listing.state) == ("simple", "", "Empty")
    assert [read_key(key or b"") for key, _ in b.log.records()] == [OffsetKey("simple", "t", 0)]


@run
async def test_metadata_has_a_limit() -> None:
    b = await Bench(offset_metadata_max_bytes=10).lead()
    offsets = [OffsetToCommit("t", 0, 1, metadata="x" * 11), OffsetToCommit("t", 1, 1, metadata="x" * 10)]
    assert b.groups.offsets.commit("g", offsets) == [ErrorCode.OFFSET_METADATA_TOO_LARGE, NONE]
    assert fetched(b) == {("t", 1): 1}


@run
async def test_offsets_are_visible_when_they_are_replicated() -> None:
    b = await Bench().lead()
    b.log.slow = True
    first = asyncio.ensure_future(commit(b, offset=1))
    second = asyncio.ensure_future(commit(b, offset=2))
    await b.clock.run()
    assert fetched(b) == {}
    await b.log.release()
    assert (await first, await second) == (NONE, NONE)
    assert fetched(b) == {("t", 0): 2}


@run
async def test_a_commit_that_is_not_replicated_is_not_there() -> None:
    b = await Bench().lead()
    b.log.slow = True
    committing = asyncio.ensure_future(commit(b))
    await b.clock.run()
    await b.log.release(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
    assert await committing is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert fetched(b) == {}
    b.log.error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert await commit(b) is ErrorCode.NOT_COORDINATOR


@run
async def test_who_is_not_the_coordinator_knows_no_offsets() -> None:
    b = Bench()
    assert await commit(b) is ErrorCode.NOT_COORDINATOR
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        b.groups.offsets.fetch("g", None)


@run
async def test_a_group_name_that_no_record_can_hold_is_refused() -> None:
    b = await Bench().lead()
    assert await commit(b, "g" * 40_000) is ErrorCode.INVALID_GROUP_ID


@run
async def test_offsets_are_deleted_for_good() -> None:
    b = await Bench().lead()
    await commit(b, topic="t")
    await commit(b, topic="u")
    assert await b.groups.offsets.delete("g", [("t", 0), ("t", 9)]) == [NONE, NONE]
    assert fetched(b) == {("u", 0): 5}
    await b.restart()
    assert fetched(b) == {("u", 0): 5}


@run
async def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    b = await Bench().lead()
    member = await b.stable(topics=("t",))
    for topic in ("t", "u"):
        await commit(b, topic=topic, member_id=member, generation_id=1)
    assert await b.groups.offsets.delete("g", [("t", 0), ("u", 0)]) == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        NONE,
    ]
    assert fetched(b) == {("t", 0): 5}


@run
async def test_offsets_of_other_kinds_of_group_are_deleted_when_it_is_empty() -> None:
    b = await Bench().lead()
    member = await b.stable(protocol_type="connect")
    with pytest.raises(KafkaError, match="NON_EMPTY_GROUP"):
        await b.groups.offsets.delete("g", [("t", 0)])
    b.groups.classic.leave("g", [LeavingMember(member)])
    assert await b.groups.offsets.delete("g", [("t", 0)]) == [NONE]
    for group_id, error in (("missing", "GROUP_ID_NOT_FOUND"), ("", "INVALID_GROUP_ID")):
        with pytest.raises(KafkaError, match=error):
            await b.groups.offsets.delete(group_id, [("t", 0)])


@run
async def test_a_deleted_group_takes_its_offsets_with_it() -> None:
    b = await Bench().lead()
    await commit(b)
    assert await b.groups.delete_groups(["g"]) == [NONE]
    await b.restart()
    assert fetched(b) == {}
    assert b.groups.list_groups() == []


@run
async def test_a_deleted_topic_takes_its_offsets_with_it() -> None:
    b = await Bench().lead()
    for group_id in ("g", "h"):
        for topic in ("t", "u"):
            await commit(b, group_id, topic)
    await b.groups.topics_deleted(["t", "never seen"])
    await b.restart()
    assert fetched(b, "g") == fetched(b, "h") == {("u", 0): 5}


@run
async def test_offsets_of_an_empty_group_expire_with_the_retention() -> None:
    b = await Bench(offsets_retention_ms=7 * DAY).lead()
    member = await b.stable()
    await commit(b, member_id=member, generation_id=1)
    b.groups.classic.heartbeat("g", member, None, 1)
    await b.clock.run(5_000)
    b.groups.classic.leave("g", [LeavingMember(member)])
    await b.clock.run(7 * DAY - 1)
    await b.groups.offsets.expire()
    assert fetched(b) == {("t", 0): 5}
    await b.clock.run(1)
    await b.groups.offsets.expire()
    assert fetched(b) == {}
    assert b.groups.list_groups() == [], "a group without members and offsets is forgotten"
    await b.restart()
    assert b.groups.list_groups() == []


@run
async def test_offsets_of_a_simple_group_expire_from_their_commit() -> None:
    b = await Bench(offsets_retention_ms=DAY).lead()
    await commit(b, topic="old")
    await b.clock.run(DAY // 2)
    await commit(b, topic="new")
    await b.clock.run(DAY // 2)
    await b.groups.offsets.expire()
    assert fetched(b) == {("new", 0): 5}


@run
async def test_a_stable_group_keeps_the_offsets_of_the_topics_it_subscribes_to() -> None:
    b = await Bench(offsets_retention_ms=DAY).lead()
    member = await b.stable(topics=("t",), session=1_800_000)
    for topic in ("t", "u"):
        await commit(b, topic=topic, member_id=member, generation_id=1)
    for _ in range(96):
        await b.clock.run(DAY // 96)
        b.groups.classic.heartbeat("g", member, None, 1)
    await b.groups.offsets.expire()
    assert fetched(b) == {("t", 0): 5}
    assert b.groups.classic.describe(["g"])[0].state == "Stable"


@run
async def test_a_commit_may_name_its_own_retention() -> None:
    b = await Bench(offsets_retention_ms=DAY).lead()
    await commit(b, retention_time_ms=1_000)
    await b.restart()
    await b.clock.run(1_000)
    await b.groups.offsets.expire()
    assert fetched(b) == {}


@run
async def test_a_commit_during_an_expiration_stays() -> None:
    b = await Bench(offsets_retention_ms=DAY).lead()
    await commit(b, offset=1)
    await b.clock.run(DAY)
    b.log.slow = True
    expiring = asyncio.ensure_future(b.groups.offsets.expire())
    await asyncio.sleep(0)
    committing = asyncio.ensure_future(commit(b, offset=2))
    await asyncio.sleep(0)
    first, second = b.log.pending
    second.set_result(None)
    assert await committing is NONE
    first.set_result(None)
    await b.clock.run()
    await b.log.release()
    await expiring
    assert fetched(b) == {("t", 0): 2}


@run
async def test_expiration_runs_by_itself() -> None:
    b = await Bench(offsets_retention_ms=DAY, offsets_retention_check_interval_ms=600_000).lead()
    b.groups.start()
    await commit(b)
    for _ in range(145):
        await b.clock.run(600_000)
    assert fetched(b) == {}
    b.groups.close()


@run
async def test_offsets_of_transactions_in_a_log_of_kafkas_count_when_they_committed() -> None:
    b = await Bench().lead()
    end = 0

    def write(offset: int, producer_id: int = -1, marker: int | None = None) -> None:
        nonlocal end
        if marker is not None:
            record = Record(0, 0, b"\x00\x00" + marker.to_bytes(2, "big"), b"\x00\x00\x00\x00\x00\x00")
        else:
            record = Record(0, 0, offset_key("g", "t", offset), offset_value(CommittedOffset(offset)))
        b.log.partitions.setdefault(b.partition("g"), bytearray()).extend(
            build_batch(
                [record],
                base_offset=end,
                producer_id=producer_id,
                producer_epoch=0 if producer_id >= 0 else -1,
                transactional=producer_id >= 0,
                control=marker is not None,
            )
        )
        end += 1

    write(1, 10)
    write(2, 20)
    write(3)
    write(4, 30)
    write(0, 10, marker=1)
    write(0, 20, marker=0)
    await b.restart()
    assert sorted(offset for offset in fetched(b).values()) == [1, 3]
