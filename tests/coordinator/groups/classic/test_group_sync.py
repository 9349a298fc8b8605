"""From a generation to a stable group: sync, heartbeats, sessions, leaving, commits."""

from __future__ import annotations

import pytest

from ottla.coordinator.groups.base.effects import GroupState, LeavingMember
from ottla.protocol.errors import ErrorCode
from tests.coordinator.groups.classic.machine import Machine, subscription


def generation_of(m: Machine, size: int, **options: object) -> list[str]:
    tickets = [m.join(**options) for _ in range(size)]  # type: ignore[arg-type]
    m.advance(6_000)
    return [m.joined(t).member_id for t in tickets]


def test_followers_wait_for_the_assignment_of_the_leader() -> None:
    m = Machine()
    leader, follower = generation_of(m, 2)
    waiting = m.sync(follower)
    assert waiting not in m.answers
    leading = m.sync(leader, {leader: b"L", follower: b"F"})
    assert m.synced(leading).assignment == b"L"
    assert m.synced(waiting).assignment == b"F"
    assert (m.synced(waiting).protocol_type, m.synced(waiting).protocol_name) == ("consumer", "range")
    assert m.group.state is GroupState.STABLE
    assert m.synced(m.sync(follower)).assignment == b"F"


def test_nobody_learns_an_assignment_that_is_not_stored_yet() -> None:
    m = Machine()
    leader, follower = generation_of(m, 2)
    waiting = m.sync(follower)
    m.hold_appends = True
    leading = m.sync(leader, {leader: b"L", follower: b"F"})
    assert waiting not in m.answers
    assert leading not in m.answers
    assert m.commit(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    m.release()
    assert m.synced(waiting).assignment == b"F"


def test_an_assignment_that_cannot_be_stored_starts_the_rebalance_again() -> None:
    m = Machine()
    leader, follower = generation_of(m, 2)
    waiting = m.sync(follower)
    m.hold_appends = True
    leading = m.sync(leader, {leader: b"L", follower: b"F"})
    m.release(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert m.synced(leading).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert m.synced(waiting).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert m.group.state is GroupState.PREPARING_REBALANCE


def test_an_assignment_that_arrives_in_the_log_after_a_new_join_is_not_used() -> None:
    m = Machine()
    (leader,) = generation_of(m, 1)
    m.hold_appends = True
    leading = m.sync(leader, {leader: b"old"})
    m.join()
    assert m.synced(leading).error is ErrorCode.REBALANCE_IN_PROGRESS
    m.release()
    assert m.group.state is GroupState.PREPARING_REBALANCE


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment() -> None:
    m = Machine()
    leader, follower = generation_of(m, 2)
    m.sync(leader, {leader: b"L", "stranger": b"S"})
    assert m.synced(m.sync(follower)).assignment == b""
    assert set(m.persisted[-1].assignments) == {leader, follower}


def test_sync_is_refused_when_it_does_not_belong_to_this_generation() -> None:
    m = Machine()
    (a,) = m.stable(None)
    assert m.synced(m.sync("stranger")).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert m.synced(m.sync(a, generation=7)).error is ErrorCode.ILLEGAL_GENERATION
    assert m.synced(m.sync(a, protocol_type="connect")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert m.synced(m.sync(a, protocol_name="sticky")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert m.synced(m.sync(a, protocol_type="consumer", protocol_name="range")).error is ErrorCode.NONE
    m.join()
    assert m.synced(m.sync(a)).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_send_no_sync_in_time_are_removed() -> None:
    m = Machine()
    leader, silent = generation_of(m, 2, rebalance=20_000, session=100_000)
    m.sync(leader, {leader: b"L", silent: b"F"})
    assert m.group.state is GroupState.STABLE
    m.advance(20_000)
    assert m.group.state is GroupState.PREPARING_REBALANCE
    assert [member.member_id for member in m.group.members] == [leader]


def test_a_leader_that_sends_no_assignment_is_removed_and_the_others_go_on() -> None:
    m = Machine()
    silent, follower = generation_of(m, 2, rebalance=20_000, session=100_000)
    waiting = m.sync(follower)
    m.advance(20_000)
    assert m.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    again = m.join(follower)
    assert m.joined(again).leader == follower
    assert silent not in m.group.members


def test_a_second_sync_of_a_member_takes_the_place_of_the_first() -> None:
    m = Machine()
    leader, follower = generation_of(m, 2)
    first = m.sync(follower)
    second = m.sync(follower)
    assert m.synced(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    m.sync(leader, {follower: b"F"})
    assert m.synced(second).assignment == b"F"


def test_heartbeats_keep_a_member_alive() -> None:
    m = Machine()
    (a,) = m.stable(None, session=10_000)
    for _ in range(10):
        m.advance(9_999)
        assert m.heartbeat(a) is ErrorCode.NONE
    m.advance(10_000)
    assert m.group.state is GroupState.EMPTY
    assert m.heartbeat(a) is ErrorCode.UNKNOWN_MEMBER_ID


def test_commits_keep_a_member_alive() -> None:
    m = Machine()
    (a,) = m.stable(None, session=10_000)
    for _ in range(10):
        m.advance(9_999)
        assert m.commit(a) is ErrorCode.NONE


def test_heartbeats_are_checked() -> None:
    m = Machine()
    (a,) = m.stable(None)
    assert m.heartbeat("stranger") is ErrorCode.UNKNOWN_MEMBER_ID
    assert m.heartbeat(a, generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert m.heartbeat(a, instance="nobody") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_may_heartbeat_while_the_leader_assigns() -> None:
    m = Machine()
    (a,) = generation_of(m, 1)
    assert m.heartbeat(a) is ErrorCode.NONE


def test_a_lapsed_member_makes_the_others_rebalance() -> None:
    m = Machine()
    a, b = m.stable(None, None, session=10_000)
    m.advance(9_000)
    m.heartbeat(b)
    m.advance(1_000)
    assert m.group.state is GroupState.PREPARING_REBALANCE
    assert m.heartbeat(b) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = m.joined(m.join(b))
    assert joined.leader == b
    assert a not in m.group.members


def test_a_member_with_a_parked_request_does_not_lapse() -> None:
    m = Machine()
    a, b = m.stable(None, None, session=10_000, rebalance=100_000)
    parked = m.join(a, session=10_000, rebalance=100_000)
    for _ in range(5):
        m.advance(9_000)
        m.heartbeat(b)
    assert parked not in m.answers
    assert a in m.group.members


def test_a_leaving_member_starts_a_rebalance() -> None:
    m = Machine()
    a, b = m.stable(None, None)
    assert m.leave(LeavingMember(a)) == [ErrorCode.NONE]
    assert m.group.state is GroupState.PREPARING_REBALANCE
    assert m.joined(m.join(b)).generation_id == 2


def test_a_group_is_empty_when_its_last_member_has_left() -> None:
    m = Machine()
    (a,) = m.stable(None)
    m.leave(LeavingMember(a))
    assert (m.group.state, m.group.generation_id) == (GroupState.EMPTY, 2)
    assert m.persisted[-1].assignments == {}
    assert m.group.protocol_type == "consumer"
    assert m.timers == {}


def test_leaving_lets_a_waiting_rebalance_go_on() -> None:
    m = Machine()
    a, b = m.stable(None, None)
    waiting = m.join(b)
    assert m.group.state is GroupState.STABLE
    waiting = m.join(b, protocols=[("range", b"changed")])
    m.leave(LeavingMember(a))
    assert m.joined(waiting).generation_id == 2


def test_several_members_leave_in_one_request() -> None:
    m = Machine()
    a, b, c = m.stable(None, "static", None)
    pending = m.joined(m.join(known=True)).member_id
    errors = m.leave(
        LeavingMember(a),
        LeavingMember("", "static"),
        LeavingMember("stranger"),
        LeavingMember("", "nobody"),
        LeavingMember(""),
        LeavingMember(pending),
        LeavingMember(c, "static"),
    )
    none, unknown = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID
    assert errors == [none, none, unknown, unknown, unknown, none, unknown]
    assert [member.member_id for member in m.group.members] == [c]
    assert b not in m.group.members


def test_leaving_with_the_wrong_member_id_of_an_instance_is_fenced() -> None:
    m = Machine()
    a, _ = m.stable(None, "static")
    assert m.leave(LeavingMember(a, "static")) == [ErrorCode.FENCED_INSTANCE_ID]


def test_a_removed_member_has_its_parked_requests_answered() -> None:
    m = Machine()
    _, follower = generation_of(m, 2)
    waiting = m.sync(follower)
    m.leave(LeavingMember(follower))
    assert m.synced(waiting).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("generation", [0, 2, -1])
def test_commits_of_another_generation_are_refused(generation: int) -> None:
    m = Machine()
    (a,) = m.stable(None)
    assert m.commit(a, generation=generation) is ErrorCode.ILLEGAL_GENERATION


def test_who_may_commit() -> None:
    m = Machine()
    assert m.commit(generation=-1) is ErrorCode.NONE, "nobody is there to be disturbed"
    (a,) = generation_of(m, 1)
    assert m.commit(a) is ErrorCode.REBALANCE_IN_PROGRESS, "the assignment is not known yet"
    m.sync(a, {a: b""})
    assert m.commit(a) is ErrorCode.NONE
    assert m.commit(generation=-1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert m.commit("stranger") is ErrorCode.UNKNOWN_MEMBER_ID
    m.join()
    assert m.commit(a) is ErrorCode.NONE, "until it rejoins it commits what it has done"


def test_the_subscribed_topics_are_those_of_all_members() -> None:
    m = Machine()
    assert not m.group.is_subscribed_to("a")
    for topics in (["a", "b"], ["c"]):
        m.join(protocols=[("range", subscription(*topics))])
    m.advance(6_000)
    assert m.group.topics == {"a", "b", "c"}
    assert m.group.is_subscribed_to("b")
    assert not m.group.is_subscribed_to("d")


def test_a_subscription_that_cannot_be_read_is_a_subscription_to_everything() -> None:
    m = Machine()
    generation_of(m, 1, protocols=[("range", b"?")])
    assert m.group.topics is None
    assert m.group.is_subscribed_to("anything")


def test_other_protocol_types_are_opaque() -> None:
    m = Machine()
    generation_of(m, 1, protocol_type="connect", protocols=[("sessioned", b"\xff")])
    assert not m.group.is_subscribed_to("anything")
