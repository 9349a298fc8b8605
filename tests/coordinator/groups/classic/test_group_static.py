"""Static members (KIP-345, KIP-814): they rejoin without a rebalance, and fence their predecessors."""

from __future__ import annotations

import pytest

from ottla.coordinator.groups.base.effects import GroupState, SyncResult
from ottla.protocol.errors import ErrorCode
from tests.coordinator.groups.classic.machine import Machine


def test_a_returning_follower_gets_its_assignment_without_a_rebalance() -> None:
    m = Machine()
    leader, old = m.stable("one", "two")
    joined = m.joined(m.join(instance="two"))
    assert joined.error is ErrorCode.NONE
    assert joined.member_id != old
    assert (joined.generation_id, joined.leader, joined.members) == (1, leader, [])
    assert not joined.skip_assignment
    assert m.group.state is GroupState.STABLE
    synced = m.synced(m.sync(joined.member_id, instance="two"))
    assert synced.assignment == b"for " + old.encode()
    assert m.persisted[-1].assignments[joined.member_id] == b"for " + old.encode()


def test_the_past_of_a_returned_member_is_fenced() -> None:
    m = Machine()
    _, old = m.stable("one", "two")
    m.join(instance="two")
    assert m.heartbeat(old, instance="two") is ErrorCode.FENCED_INSTANCE_ID
    assert m.commit(old, instance="two") is ErrorCode.FENCED_INSTANCE_ID
    assert m.synced(m.sync(old, instance="two")).error is ErrorCode.FENCED_INSTANCE_ID
    assert m.joined(m.join(old, instance="two")).error is ErrorCode.FENCED_INSTANCE_ID
    assert m.heartbeat(old) is ErrorCode.UNKNOWN_MEMBER_ID


def test_parked_requests_of_the_past_are_fenced() -> None:
    m = Machine()
    first = m.join(instance="one")
    m.join(instance="one")
    assert m.joined(first).error is ErrorCode.FENCED_INSTANCE_ID
    m.advance(6_000)
    leader = m.group.members.leader or ""
    m.hold_appends = True
    waiting = m.sync(leader, {leader: b""}, instance="one")
    m.join(instance="one")
    assert isinstance(m.answers[waiting], SyncResult)
    assert m.synced(waiting).error is ErrorCode.FENCED_INSTANCE_ID


def test_a_returning_leader_is_told_to_skip_the_assignment() -> None:
    m = Machine()
    m.stable("one", "two")
    joined = m.joined(m.join(instance="one"))
    assert joined.skip_assignment
    assert joined.leader == joined.member_id
    assert len(joined.members) == 2, "it needs them to watch the topics of the others"


def test_an_old_client_that_led_is_told_that_another_leads() -> None:
    m = Machine()
    old, _ = m.stable("one", "two")
    joined = m.joined(m.join(instance="one", skip=False))
    assert (joined.leader, joined.members, joined.skip_assignment) == (old, [], False)
    assert m.group.members.leader == joined.member_id


def test_a_return_with_a_changed_protocol_rebalances() -> None:
    m = Machine()
    both = [("range", b""), ("sticky", b"")]
    m.stable("one", protocols=both)
    ticket = m.join(instance="one", protocols=[("sticky", b""), ("range", b"")])
    assert m.joined(ticket).generation_id == 2
    assert m.joined(ticket).protocol_name == "sticky"


def test_a_return_during_a_rebalance_counts_as_rejoined() -> None:
    m = Machine()
    a, _ = m.stable("one", "two")
    waiting = m.join(a, instance="one")
    m.join(instance="two")
    assert m.joined(waiting).generation_id == 2


def test_a_return_while_the_leader_assigns_starts_over() -> None:
    m = Machine()
    tickets = [m.join(instance="one"), m.join(instance="two")]
    m.advance(6_000)
    leader = m.joined(tickets[0]).member_id
    m.join(instance="two")
    assert m.group.state is GroupState.PREPARING_REBALANCE
    assert m.synced(m.sync(leader, instance="one")).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_return_that_cannot_be_stored_is_undone() -> None:
    m = Machine()
    _, old = m.stable("one", "two")
    m.hold_appends = True
    ticket = m.join(instance="two", protocols=[("range", b"new")])
    assert ticket not in m.answers
    m.release(ErrorCode.NOT_COORDINATOR)
    assert m.joined(ticket).error is ErrorCode.NOT_COORDINATOR
    assert m.heartbeat(old, instance="two") is ErrorCode.NONE
    assert m.group.members.members[old].metadata("range") == b"range-metadata"


def test_a_return_that_is_overtaken_by_a_rebalance_joins_that() -> None:
    m = Machine()
    a, _ = m.stable("one", "two")
    m.hold_appends = True
    returning = m.join(instance="two")
    m.join(a, instance="one")
    assert m.joined(returning).generation_id == 2
    m.release()


@pytest.mark.parametrize("instance", ["one", "two"])
def test_a_static_member_that_stays_away_lapses_like_any_other(instance: str) -> None:
    m = Machine()
    members = dict(zip(("one", "two"), m.stable("one", "two", session=10_000), strict=True))
    other = "two" if instance == "one" else "one"
    m.advance(9_000)
    m.heartbeat(members[other], instance=other)
    m.advance(1_000)
    assert set(m.group.members.static) == {other}


def test_a_pending_id_does_not_become_static() -> None:
    m = Machine()
    pending = m.joined(m.join(known=True)).member_id
    assert m.joined(m.join(pending, instance="one")).error is ErrorCode.UNKNOWN_MEMBER_ID
