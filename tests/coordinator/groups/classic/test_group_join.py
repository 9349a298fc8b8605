"""Joining a classic group: ids, delays, leaders, protocols, limits."""

from __future__ import annotations

import pytest

from ottla.coordinator.groups.base.effects import GroupState, LeavingMember
from ottla.protocol.errors import ErrorCode
from tests.coordinator.groups.classic.machine import Machine


def test_a_dynamic_member_first_asks_for_its_id() -> None:
    m = Machine()
    first = m.joined(m.join(known=True))
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id == "client-uuid1"
    assert m.group.state is GroupState.EMPTY
    ticket = m.join(first.member_id, known=True)
    assert m.group.state is GroupState.PREPARING_REBALANCE
    m.advance(3_000)
    joined = m.joined(ticket)
    assert (joined.error, joined.member_id, joined.generation_id) == (ErrorCode.NONE, "client-uuid1", 1)
    assert joined.leader == joined.member_id
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert [tuple(member) for member in joined.members] == [("client-uuid1", None, b"range-metadata")]


def test_an_id_that_is_not_used_within_the_session_timeout_is_forgotten() -> None:
    m = Machine()
    member = m.joined(m.join(known=True, session=10_000)).member_id
    m.advance(10_000)
    assert m.joined(m.join(member, known=True)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_old_clients_join_without_an_id() -> None:
    m = Machine()
    ticket = m.join(known=False)
    m.advance(3_000)
    assert m.joined(ticket).error is ErrorCode.NONE


def test_a_static_member_has_its_instance_id_in_its_member_id() -> None:
    m = Machine()
    ticket = m.join(instance="left-hand", known=True)
    m.advance(3_000)
    assert m.joined(ticket).member_id == "left-hand-uuid1"
    assert m.joined(ticket).members[0].group_instance_id == "left-hand"


def test_the_first_rebalance_is_prolonged_while_members_arrive() -> None:
    m = Machine(initial_rebalance_delay_ms=3_000)
    first = m.join(rebalance=60_000)
    m.advance(2_000)
    second = m.join()
    m.advance(1_000)
    assert first not in m.answers
    m.advance(3_000)
    assert m.joined(first).generation_id == 1
    assert len(m.joined(first).members) == 2
    assert m.joined(second).members == []
    assert m.joined(second).leader == m.joined(first).member_id


def test_the_first_rebalance_takes_no_longer_than_the_rebalance_timeout() -> None:
    m = Machine(initial_rebalance_delay_ms=3_000)
    first = m.join(rebalance=7_000)
    for _ in range(12):
        m.advance(1_000)
        m.join(rebalance=7_000)
        if first in m.answers:
            break
    assert 7_000 <= m.now - 1_000_000 <= 10_000


def test_without_a_delay_the_first_member_has_its_generation_at_once() -> None:
    m = Machine(initial_rebalance_delay_ms=0)
    ticket = m.join()
    m.advance(0)
    assert m.joined(ticket).generation_id == 1


def test_a_new_member_makes_the_others_rejoin() -> None:
    m = Machine()
    (a,) = m.stable(None)
    newcomer = m.join()
    assert m.group.state is GroupState.PREPARING_REBALANCE
    assert m.heartbeat(a) is ErrorCode.REBALANCE_IN_PROGRESS
    again = m.join(a)
    assert m.joined(again).generation_id == m.joined(newcomer).generation_id == 2
    assert m.joined(again).leader == a


def test_a_rebalance_waits_for_an_id_that_was_handed_out() -> None:
    m = Machine()
    (a,) = m.stable(None)
    pending = m.joined(m.join(known=True)).member_id
    assert m.group.state is GroupState.STABLE
    again = m.join(a)
    assert again not in m.answers
    m.join(pending, known=True)
    assert len(m.joined(again).members) == 2


def test_members_that_do_not_rejoin_in_time_are_removed() -> None:
    m = Machine()
    a, b = m.stable(None, None, rebalance=30_000, session=100_000)
    newcomer = m.join(rebalance=30_000)
    again = m.join(b, rebalance=30_000)
    m.advance(29_999)
    assert again not in m.answers
    m.advance(1)
    joined = m.joined(again)
    assert joined.generation_id == 2
    assert joined.leader == b, "the old leader did not rejoin"
    assert {member.member_id for member in joined.members} == {b, m.joined(newcomer).member_id}
    assert m.heartbeat(a) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_rejoin_stays_until_its_session_ends() -> None:
    m = Machine()
    a, _ = m.stable("one", "two", rebalance=30_000, session=100_000)
    again = m.join(a, instance="one", rebalance=30_000)
    m.advance(30_000)
    assert len(m.joined(again).members) == 2


def test_static_members_of_which_none_comes_back_are_removed_one_by_one() -> None:
    m = Machine()
    m.stable("one", "two", rebalance=5_000, session=10_000)
    newcomer = m.join(rebalance=5_000)
    waiting = next(member for member in m.group.members if member.join_ticket == newcomer)
    m.leave(LeavingMember(waiting.member_id))
    m.advance(60_000)
    assert m.group.state is GroupState.EMPTY
    assert m.timers == {}


def test_a_follower_that_rejoins_unchanged_gets_the_current_generation() -> None:
    m = Machine()
    a, b = m.stable(None, None)
    joined = m.joined(m.join(b))
    assert (joined.generation_id, joined.leader, joined.members) == (1, a, [])
    assert m.group.state is GroupState.STABLE


@pytest.mark.parametrize("who", ["leader", "follower with other topics"])
def test_the_leader_or_a_changed_member_starts_a_rebalance(who: str) -> None:
    m = Machine()
    a, b = m.stable(None, None)
    if who == "leader":
        m.join(a)
    else:
        m.join(b, protocols=[("range", b"other")])
    assert m.group.state is GroupState.PREPARING_REBALANCE


def test_a_retried_join_while_the_leader_assigns_gets_the_same_answer() -> None:
    m = Machine()
    first = m.join()
    m.advance(3_000)
    leader = m.joined(first).member_id
    again = m.joined(m.join(leader))
    assert again.generation_id == 1
    assert len(again.members) == 1
    assert m.group.state is GroupState.COMPLETING_REBALANCE


def test_a_retried_join_takes_the_place_of_the_parked_one() -> None:
    m = Machine()
    a, _ = m.stable(None, None)
    parked = m.join(a)
    m.join(a)
    assert m.joined(parked).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert m.group.members.awaiting_join == 1


def test_every_member_votes_for_its_first_protocol_that_all_support() -> None:
    m = Machine()
    tickets = [
        m.join(protocols=[("sticky", b""), ("range", b"1"), ("roundrobin", b"")]),
        m.join(protocols=[("roundrobin", b""), ("range", b"2")]),
        m.join(protocols=[("range", b"3"), ("roundrobin", b"")]),
    ]
    m.advance(6_000)
    joined = m.joined(tickets[0])
    assert joined.protocol_name == "range"
    assert [member.metadata for member in joined.members] == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("consumer", [("sticky", b"")]), ("connect", [("range", b"")]), ("consumer", [])],
)
def test_a_member_that_shares_no_protocol_is_refused(
    protocol_type: str, protocols: list[tuple[str, bytes]]
) -> None:
    m = Machine()
    m.stable(None)
    refused = m.joined(m.join(protocol_type=protocol_type, protocols=protocols))
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert m.group.state is GroupState.STABLE


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", [("range", b"")]), ("consumer", [])])
def test_a_group_needs_a_protocol(protocol_type: str, protocols: list[tuple[str, bytes]]) -> None:
    m = Machine()
    refused = m.joined(m.join(protocol_type=protocol_type, protocols=protocols))
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_emptied_group_may_change_its_protocol_type() -> None:
    m = Machine()
    m.stable(None)
    m.advance(10_000)
    assert m.group.state is GroupState.EMPTY
    ticket = m.join(protocol_type="connect", protocols=[("sessioned", b"x")])
    m.advance(3_000)
    assert m.joined(ticket).protocol_type == "connect"


def test_no_more_members_than_group_max_size() -> None:
    m = Machine(max_size=2)
    a, b = m.stable(None, None)
    assert m.joined(m.join()).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    m.join(a)
    again = m.join(b)
    assert m.joined(again).error is ErrorCode.NONE


def test_a_new_member_whose_client_is_gone_does_not_wait_for_ever() -> None:
    m = Machine()
    (a,) = m.stable(None, rebalance=3_600_000)
    newcomer = m.join(rebalance=3_600_000)
    for _ in range(60):
        m.advance(5_000)
        m.heartbeat(a)
    assert m.joined(newcomer).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(m.group.members) == 1


def test_a_dead_group_sends_members_to_find_their_coordinator() -> None:
    m = Machine()
    (a,) = m.stable(None)
    parked = m.join()
    m.run(m.group.die(ErrorCode.NOT_COORDINATOR, m.now))
    assert m.joined(parked).error is ErrorCode.NOT_COORDINATOR
    assert m.timers == {}
    assert m.joined(m.join(a)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert m.heartbeat(a) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert m.synced(m.sync(a)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert m.commit(a) is ErrorCode.COORDINATOR_NOT_AVAILABLE
