"""Random histories of a group: its promises hold under any order of events."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.coordinator.groups.base.effects import GroupState, JoinResult, LeavingMember, SyncResult
from ottla.coordinator.groups.classic.group_metadata import group_value, read_group_value
from ottla.protocol.errors import ErrorCode
from tests.coordinator.groups.classic.machine import Machine

PROTOCOLS = st.sampled_from(
    [
        (("range", b"a"), ("sticky", b"a")),
        (("range", b"b"),),
        (("sticky", b"c"), ("range", b"c")),
        (("sticky", b"d"),),
    ]
)
INSTANCES = st.sampled_from([None, None, "one", "two", "three"])
SESSIONS = st.sampled_from([6_000, 10_000, 45_000])
REBALANCES = st.sampled_from([5_000, 30_000, 60_000])


class GroupLife(RuleBasedStateMachine):
    @initialize(delay=st.sampled_from([0, 3_000]), max_size=st.sampled_from([2, 5, 100]))
    def begin(self, delay: int, max_size: int) -> None:
        self.m = Machine(initial_rebalance_delay_ms=delay, max_size=max_size)
        self.generation = 0
        self.ids: list[str] = ["stranger"]
        self.asked: dict[int, int] = {}

    def some_id(self, number: int) -> str:
        return self.ids[number % len(self.ids)]

    def learn(self) -> None:
        """Remember the assigned ids, like clients."""
        for result in self.m.answers.values():
            if isinstance(result, JoinResult) and result.member_id and result.member_id not in self.ids:
                self.ids.append(result.member_id)

    def instance_of(self, member_id: str) -> str | None:
        member = self.m.group.members.members.get(member_id)
        return None if member is None else member.group_instance_id

    @rule(
        instance=INSTANCES,
        protocols=PROTOCOLS,
        session=SESSIONS,
        rebalance=REBALANCES,
        known=st.booleans(),
        skip=st.booleans(),
    )
    def join_anew(self, **options: object) -> None:
        self.m.join(**options)  # type: ignore[arg-type]
        self.learn()

    @rule(number=st.integers(0, 30), protocols=PROTOCOLS, session=SESSIONS, rebalance=REBALANCES)
    def rejoin(self, number: int, **options: object) -> None:
        member = self.some_id(number)
        self.m.join(member, instance=self.instance_of(member), **options)  # type: ignore[arg-type]
        self.learn()

    @rule()
    def everybody_rejoins(self) -> None:
        for member in list(self.m.group.members):
            if member.member_id in self.m.group.members:
                self.m.join(member.member_id, instance=member.group_instance_id, protocols=member.protocols)
        self.learn()

    @rule(number=st.integers(0, 30), stale=st.booleans())
    def sync(self, number: int, stale: bool) -> None:
        self.sync_as(self.some_id(number), self.m.group.generation_id - stale)

    @rule()
    def leader_syncs(self) -> None:
        if self.m.group.members.leader is not None:
            self.sync_as(self.m.group.members.leader, self.m.group.generation_id)

    def sync_as(self, member: str, generation: int) -> None:
        assignments = {m.member_id: f"{generation}:{m.member_id}".encode() for m in self.m.group.members}
        ticket = self.m.sync(member, assignments, generation=generation, instance=self.instance_of(member))
        self.asked[ticket] = generation

    @rule(number=st.integers(0, 30))
    def heartbeat(self, number: int) -> None:
        member = self.some_id(number)
        error = self.m.heartbeat(member, instance=self.instance_of(member))
        if member not in self.m.group.members:
            assert error is ErrorCode.UNKNOWN_MEMBER_ID

    @rule(number=st.integers(0, 30), generation=st.sampled_from([None, -1]))
    def commit(self, number: int, generation: int | None) -> None:
        member = self.some_id(number)
        error = self.m.commit(member, generation=generation, instance=self.instance_of(member))
        if error is ErrorCode.NONE and generation is None:
            assert member in self.m.group.members
            assert self.m.group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE)
        elif error is ErrorCode.NONE:
            assert self.m.group.state is GroupState.EMPTY

    @rule(number=st.integers(0, 30))
    def leave(self, number: int) -> None:
        self.m.leave(LeavingMember(self.some_id(number)))

    @rule(instance=st.sampled_from(["one", "two", "three"]))
    def remove_instance(self, instance: str) -> None:
        known = instance in self.m.group.members.static
        (error,) = self.m.leave(LeavingMember("", instance))
        assert known == (error is ErrorCode.NONE)

    @rule(milliseconds=st.sampled_from([0, 1_000, 5_000, 20_000, 100_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.m.advance(milliseconds)
        self.learn()

    @rule(hold=st.booleans())
    def the_log_is_slow(self, hold: bool) -> None:
        self.m.hold_appends = hold
        if not hold:
            self.m.release()

    @precondition(lambda self: self.m.held)
    @rule(error=st.sampled_from([ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE]))
    def the_log_answers(self, error: ErrorCode) -> None:
        self.m.release(error)
        self.learn()

    @invariant()
    def the_generation_grows(self) -> None:
        assert self.m.group.generation_id >= self.generation
        self.generation = self.m.group.generation_id

    @invariant()
    def members_are_consistent(self) -> None:
        group, members = self.m.group, self.m.group.members
        assert (group.state is GroupState.EMPTY) <= (len(members) == 0)
        assert (len(members) > 0) == (members.leader is not None)
        assert members.leader is None or members.leader in members
        assert all(member_id == m.member_id for member_id, m in members.members.items())
        statics = [m.group_instance_id for m in members if m.group_instance_id is not None]
        assert len(statics) == len(set(statics))
        assert members.static == {m.group_instance_id: m.member_id for m in members if m.is_static}
        assert members.awaiting_join == sum(m.join_ticket is not None for m in members)
        assert members.pending_sync <= members.members.keys()
        assert not members.pending & members.members.keys()
        if len(members):
            assert group.members.select_protocol(), "there is always a protocol that all support"

    @invariant()
    def every_member_is_watched(self) -> None:
        """Every wait ends by a timer: the member's, the join's or the sync's."""
        watched = {key.member_id for key in self.m.timers if key.member_id}
        kinds = {key.kind.value for key in self.m.timers}
        for member in self.m.group.members:
            parked = member.join_ticket is not None or member.sync_ticket is not None
            assert member.member_id in watched or (parked and (kinds & {"join", "sync"} or self.m.held))
        if self.m.group.state is GroupState.PREPARING_REBALANCE:
            assert "join" in kinds
        assert watched <= self.m.group.members.members.keys() | self.m.group.members.pending

    @invariant()
    def only_parked_requests_are_unanswered(self) -> None:
        waiting = self.m.tickets - self.m.answers.keys()
        parked = {m.join_ticket for m in self.m.group.members} | {m.sync_ticket for m in self.m.group.members}
        assert waiting == parked - {None}

    @invariant()
    def assignments_are_of_the_generation_that_asked(self) -> None:
        for ticket, asked in list(self.asked.items()):
            result = self.m.answers.get(ticket)
            if isinstance(result, SyncResult) and result.error is ErrorCode.NONE and result.assignment:
                assert result.assignment.decode().split(":")[0] == str(asked)
            if result is not None:
                del self.asked[ticket]

    @invariant()
    def a_generation_is_answered_with_one_leader(self) -> None:
        leaders: dict[int, set[str]] = {}
        for result in self.m.answers.values():
            # A leader may return under another id within its generation, but then it skips the assignment.
            if isinstance(result, JoinResult) and result.members and not result.skip_assignment:
                leaders.setdefault(result.generation_id, set()).add(result.member_id)
        assert all(len(ids) == 1 for ids in leaders.values())

    @invariant()
    def a_stable_group_survives_the_log(self) -> None:
        group = self.m.group
        if group.state is GroupState.STABLE:
            value = read_group_value(group_value(group, {m.member_id: m.assignment for m in group.members}))
            assert [m.member_id for m in value.members] == list(group.members.members)
            assert value.leader == group.members.leader

    def teardown(self) -> None:
        """Without further input, a group answers all pending requests and becomes empty."""
        if hasattr(self, "m"):
            self.m.hold_appends = False
            self.m.release()
            self.m.advance(3_600_000)
            assert self.m.tickets == set(self.m.answers)
            assert self.m.group.state is GroupState.EMPTY
            assert not self.m.timers


TestGroupLife = GroupLife.TestCase
TestGroupLife.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
