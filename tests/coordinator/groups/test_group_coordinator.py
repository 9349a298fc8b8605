"""The coordinator around the machines: leadership, storage, administration."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps

import pytest

from ottla.coordinator.groups.base.effects import LeavingMember, SyncRequest, SyncResult
from ottla.coordinator.groups.classic.group_metadata import GroupKey, read_group_value, read_key
from ottla.protocol.errors import ErrorCode, KafkaError
from tests.coordinator.bench import Bench


def run(test: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    @wraps(test)
    def wrapper(*args: object, **kwargs: object) -> None:
        asyncio.run(test(*args, **kwargs))

    return wrapper


@run
async def test_a_consumer_joins_syncs_and_leaves() -> None:
    b = await Bench().lead()
    asked = await b.join(known=True)
    assert asked.error is ErrorCode.MEMBER_ID_REQUIRED
    joining = b.join(member_id=asked.member_id, known=True)
    await b.clock.run()
    joined = await joining
    assert (joined.generation_id, joined.leader) == (1, asked.member_id)
    synced = await b.sync("g", joined.member_id, 1)
    assert synced.assignment == b"assigned"
    assert b.groups.classic.heartbeat("g", joined.member_id, None, 1) is ErrorCode.NONE
    assert b.groups.classic.leave("g", [LeavingMember(joined.member_id)]) == [ErrorCode.NONE]
    assert b.groups.classic.describe(["g"])[0].state == "Empty"


@run
async def test_the_log_tells_the_life_of_a_group() -> None:
    b = await Bench().lead()
    member = await b.stable()
    b.groups.classic.leave("g", [LeavingMember(member)])
    records = [(read_key(key or b""), read_group_value(value or b"")) for key, value in b.log.records()]
    assert [key for key, _ in records] == [GroupKey("g")] * 3
    created, stable, emptied = [value for _, value in records]
    assert (created.protocol_type, created.generation_id, created.members) == ("", 0, [])
    assert (stable.generation_id, stable.leader) == (1, member)
    assert stable.members[0].assignment == b"assigned"
    assert (emptied.protocol_type, emptied.generation_id, emptied.leader) == ("consumer", 2, None)


@run
async def test_a_stable_group_goes_on_after_a_restart() -> None:
    b = await Bench().lead()
    member = await b.stable("g")
    fixed = await b.stable("s", instance="one")
    before = b.groups.classic.describe(["g", "s"])
    await b.restart()
    assert b.groups.classic.describe(["g", "s"]) == before
    assert before[0].members[0].assignment == b"assigned"
    assert b.groups.classic.heartbeat("g", member, None, 1) is ErrorCode.NONE
    assert b.groups.classic.heartbeat("s", fixed, "one", 1) is ErrorCode.NONE
    assert b.groups.classic.heartbeat("s", "other", "one", 1) is ErrorCode.FENCED_INSTANCE_ID


@run
async def test_members_that_do_not_show_up_after_a_restart_lapse() -> None:
    b = await Bench().lead()
    await b.stable(session=10_000)
    await b.restart()
    await b.clock.run(9_999)
    assert b.groups.classic.describe(["g"])[0].state == "Stable"
    await b.clock.run(1)
    assert b.groups.classic.describe(["g"])[0].state == "Empty"


@run
async def test_a_group_larger_than_the_limit_rebalances_after_a_restart() -> None:
    b = await Bench(initial_rebalance_delay_ms=1_000).lead()
    joining = [b.join(), b.join(), b.join()]
    await b.clock.run(3_000)
    members = [(await j).member_id for j in joining]
    await b.sync("g", members[0], 1)
    b.config = type(b.config)(max_size=2)
    await b.restart()
    assert b.groups.classic.describe(["g"])[0].state == "PreparingRebalance"


@run
async def test_a_broker_that_does_not_lead_the_partition_is_not_the_coordinator() -> None:
    b = Bench()
    assert (await b.join()).error is ErrorCode.NOT_COORDINATOR
    assert b.groups.classic.heartbeat("g", "m", None, 1) is ErrorCode.NOT_COORDINATOR
    assert b.groups.classic.sync("g", SyncRequest("m", 1)) == SyncResult(ErrorCode.NOT_COORDINATOR)
    assert b.groups.classic.describe(["g"])[0].error is ErrorCode.NOT_COORDINATOR
    assert await b.groups.delete_groups(["g"]) == [ErrorCode.NOT_COORDINATOR]
    assert b.groups.list_groups() == []
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        b.groups.classic.leave("g", [LeavingMember("m")])


@run
async def test_while_groups_are_read_clients_are_told_to_wait() -> None:
    b = Bench()
    b.log.reading.clear()
    loading = asyncio.ensure_future(b.groups.runtime.become_leader(b.partition("g"), 1))
    await asyncio.sleep(0)
    assert (await b.join()).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert b.groups.classic.heartbeat("g", "m", None, 1) is ErrorCode.NONE, "it must not be sent away"
    assert b.groups.classic.sync("g", SyncRequest("m", 1)) == SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)
    with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        b.groups.list_groups()
    b.log.reading.set()
    await loading
    assert b.groups.classic.heartbeat("g", "m", None, 1) is ErrorCode.UNKNOWN_MEMBER_ID


@run
async def test_waiting_members_are_sent_away_when_the_leadership_goes() -> None:
    b = await Bench(initial_rebalance_delay_ms=3_000).lead()
    waiting = b.join()
    await b.clock.run()
    b.groups.runtime.resign(b.partition("g"), 2)
    assert (await waiting).error is ErrorCode.NOT_COORDINATOR
    assert (await b.join()).error is ErrorCode.NOT_COORDINATOR
    assert b.clock.armed <= 1, "no timer of the group is left"


@run
async def test_a_resignation_of_an_older_epoch_is_ignored() -> None:
    b = Bench()
    await b.groups.runtime.become_leader(b.partition("g"), 5)
    b.groups.runtime.resign(b.partition("g"), 4)
    assert (await b.join(known=True)).error is ErrorCode.MEMBER_ID_REQUIRED


@run
async def test_leadership_lost_while_reading_stays_lost() -> None:
    b = Bench()
    b.log.reading.clear()
    loading = asyncio.ensure_future(b.groups.runtime.become_leader(b.partition("g"), 1))
    await asyncio.sleep(0)
    b.groups.runtime.resign(b.partition("g"), 2)
    b.log.reading.set()
    await loading
    assert (await b.join()).error is ErrorCode.NOT_COORDINATOR


@run
async def test_a_member_is_answered_when_its_assignment_is_replicated() -> None:
    b = await Bench().lead()
    joining = b.join()
    await b.clock.run()
    joined = await joining
    b.log.slow = True
    result = b.groups.classic.sync("g", SyncRequest(joined.member_id, 1, {joined.member_id: b"mine"}))
    assert isinstance(result, Awaitable)
    syncing = asyncio.ensure_future(result)
    await b.clock.run()
    assert not syncing.done()
    await b.log.release()
    assert (await syncing).assignment == b"mine"


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
@pytest.mark.parametrize("when", ["at once", "later"])
def test_a_failed_append_is_told_in_words_that_a_member_knows(
    failure: ErrorCode, told: ErrorCode, when: str
) -> None:
    @run
    async def check() -> None:
        b = await Bench().lead()
        joining = b.join()
        await b.clock.run()
        member = (await joining).member_id
        if when == "at once":
            b.log.error = KafkaError(failure)
            assert (await b.sync("g", member, 1)).error is told
        else:
            b.log.slow = True
            syncing = asyncio.ensure_future(b.sync("g", member, 1))
            await b.clock.run()
            await b.log.release(KafkaError(failure))
            assert (await syncing).error is told
        assert b.groups.classic.describe(["g"])[0].state == "PreparingRebalance"

    check()


@run
async def test_a_group_that_cannot_be_created_is_not_there() -> None:
    b = await Bench().lead()
    b.log.error = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert (await b.join()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert b.groups.list_groups() == []


@run
async def test_a_refused_first_member_leaves_no_group_behind() -> None:
    b = await Bench().lead()
    assert (await b.join(protocol_type="")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert b.groups.list_groups() == []
    assert b.log.records() == []


@pytest.mark.parametrize("session", [5_999, 1_800_001, -1])
def test_session_timeouts_have_limits(session: int) -> None:
    @run
    async def check() -> None:
        b = await Bench().lead()
        assert (await b.join(session=session)).error is ErrorCode.INVALID_SESSION_TIMEOUT

    check()


@run
async def test_a_group_needs_a_name_to_be_joined() -> None:
    b = await Bench().lead()
    assert (await b.join("")).error is ErrorCode.INVALID_GROUP_ID
    assert (await b.join("g" * 40_000)).error is ErrorCode.INVALID_GROUP_ID
    assert b.groups.classic.heartbeat("", "m", None, 1) is ErrorCode.INVALID_GROUP_ID
    assert b.groups.classic.sync("", SyncRequest("m", 1)) == SyncResult(ErrorCode.INVALID_GROUP_ID)
    with pytest.raises(KafkaError, match="INVALID_GROUP_ID"):
        b.groups.classic.leave("", [LeavingMember("m")])


@run
async def test_members_of_unknown_groups_are_unknown() -> None:
    b = await Bench().lead()
    assert (await b.join(member_id="m")).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert b.groups.classic.heartbeat("g", "m", None, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert b.groups.classic.sync("g", SyncRequest("m", 1)) == SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)
    assert b.groups.classic.leave("g", [LeavingMember("m")]) == [ErrorCode.UNKNOWN_MEMBER_ID]


@run
async def test_groups_are_described() -> None:
    b = await Bench(initial_rebalance_delay_ms=1_000).lead()
    joining = b.join(instance="one")
    await b.clock.run()
    (preparing,) = b.groups.classic.describe(["g"])
    assert (preparing.state, preparing.protocol_type, preparing.protocol_name) == (
        "PreparingRebalance",
        "consumer",
        "",
    )
    await b.clock.run(1_000)
    member = (await joining).member_id
    await b.sync("g", member, 1)
    stable, missing = b.groups.classic.describe(["g", "missing"])
    assert (stable.state, stable.protocol_name) == ("Stable", "range")
    (described,) = stable.members
    assert (described.member_id, described.group_instance_id) == (member, "one")
    assert (described.client_id, described.client_host) == ("client", "/127.0.0.1")
    assert described.assignment == b"assigned"
    assert (missing.error, missing.state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")


@run
async def test_groups_are_listed_by_state_and_type() -> None:
    b = await Bench().lead()
    await b.stable("stable")
    await b.join("empty", known=True)
    await b.stable("connect", protocol_type="connect")

    def names(**filters: list[str]) -> set[str]:
        return {group.group_id for group in b.groups.list_groups(**filters)}

    assert names() == {"stable", "empty", "connect"}
    assert names(states=["stable"]) == names(states=["Stable"]) == {"stable", "connect"}
    assert names(states=["Empty", "bogus"]) == {"empty"}
    assert names(types=["Classic"]) == names()
    assert names(types=["consumer"]) == set()
    assert {g.protocol_type for g in b.groups.list_groups()} == {"consumer", "", "connect"}


@run
async def test_only_groups_without_members_are_deleted() -> None:
    b = await Bench().lead()
    await b.stable("busy")
    leaver = await b.stable("left")
    b.groups.classic.leave("left", [LeavingMember(leaver)])
    errors = await b.groups.delete_groups(["busy", "left", "missing", "left"])
    assert errors == [
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.NONE,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    await b.restart()
    assert [g.group_id for g in b.groups.list_groups()] == ["busy"]


@run
async def test_a_deletion_that_fails_leaves_the_group_as_it_was() -> None:
    b = await Bench().lead()
    leaver = await b.stable()
    b.groups.classic.leave("g", [LeavingMember(leaver)])
    b.log.slow = True
    deleting = asyncio.ensure_future(b.groups.delete_groups(["g"]))
    await b.clock.run()
    await b.log.release(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS))
    assert await deleting == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert b.groups.classic.describe(["g"])[0].state == "Empty"


@run
async def test_a_request_whose_client_has_gone_does_no_harm() -> None:
    b = await Bench(initial_rebalance_delay_ms=1_000).lead()
    joining = b.join()
    await asyncio.sleep(0)
    joining.cancel()
    await b.clock.run(1_000)
    assert b.groups.classic.describe(["g"])[0].state == "CompletingRebalance"


@run
async def test_thousands_of_members_need_one_timer() -> None:
    b = await Bench(initial_rebalance_delay_ms=1_000).lead()
    joining = [b.join(session=30_000) for _ in range(2_000)]
    await b.clock.run(2_000)
    members = [(await j).member_id for j in joining]
    assert len(set(members)) == 2_000
    await b.sync("g", members[0], 1)
    for member in members:
        assert b.groups.classic.heartbeat("g", member, None, 1) is ErrorCode.NONE
    assert b.clock.armed == 1
    assert len(asyncio.all_tasks()) <= 2


@run
async def test_records_that_cannot_be_read_do_not_take_the_others_with_them() -> None:
    b = await Bench().lead()
    await b.stable()
    b.log.append(
        b.partition("g"), [(b"\x00\x02", b""), (b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00", b"\x09")], 0
    )
    b.log.append(b.partition("g"), [(b"\x00\x05\x00\x01g", b"a KIP-848 record")], 0)
    await b.restart()
    assert b.groups.classic.describe(["g"])[0].state == "Stable"
