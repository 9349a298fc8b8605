"""The classic consumer group: a pure state machine.

    Empty ──join──▶ PreparingRebalance ──all joined──▶ CompletingRebalance ──leader's sync──▶ Stable
      ▲                 ▲      │                            │                                  │
      └──nobody left────┼──────┘                            │                                  │
                        └──────── join, leave, lapse ───────┴──────────────────────────────────┘

The machine has no sockets, no clock and never waits. Time arrives as `now_ms` and `on_timer`, the result of an append
as `on_persisted`. Anything to do outside the machine is returned as an effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from ottla.coordinator.groups.base.base_group import Decision, GroupConfig
from ottla.coordinator.groups.base.effects import (
    JOIN_TIMER,
    SYNC_TIMER,
    Answer,
    CancelTimer,
    Effect,
    GroupState,
    JoinRequest,
    JoinResult,
    LeavingMember,
    Persist,
    SetTimer,
    StaticReplacement,
    SyncRequest,
    SyncResult,
    TimerKey,
    TimerKind,
    session_timer,
)
from ottla.coordinator.groups.classic.group_metadata import GroupMetadata, group_key
from ottla.coordinator.groups.classic.members import Member
from ottla.coordinator.runtime import KeyValue
from ottla.protocol.errors import ErrorCode

log = logging.getLogger(__name__)

EMPTY = GroupState.EMPTY
PREPARING = GroupState.PREPARING_REBALANCE
COMPLETING = GroupState.COMPLETING_REBALANCE
STABLE = GroupState.STABLE
DEAD = GroupState.DEAD


class ClassicGroup(GroupMetadata):
    """Invariants: the generation never shrinks; only Empty and Dead groups have no members; exactly one `Answer`
    settles each ticket accepted by `join` or `sync`. Owner: the event loop, through the shard.
    """

    __slots__ = ("_initial_delay", "_new_member_added", "_new_uuid")

    def __init__(self, group_id: str, config: GroupConfig, new_uuid: Callable[[], str], now_ms: int) -> None:
        super().__init__(group_id, config, now_ms)
        self._new_uuid = new_uuid
        # First rebalance only: the current delay, and the remaining time by which it may be extended.
        self._initial_delay = (0, 0)
        self._new_member_added = False

    # Requests

    def join(self, request: JoinRequest, ticket: object, now_ms: int) -> Decision:
        member_id = request.member_id
        if not self._has_room_for(member_id):
            self._remove(member_id)
            self._refuse(ticket, "", ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif self.state is DEAD:
            self._refuse(ticket, member_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif not self._supports(request):
            self._refuse(ticket, member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif not member_id:
            self._join_without_id(request, ticket, now_ms)
        elif member_id in self.members.pending and request.group_instance_id is None:
            self._add_member(member_id, request, ticket, now_ms)
        elif error := self._check_member(member_id, request.group_instance_id):
            self._refuse(ticket, member_id, error)
        else:
            self._rejoin(self.members.members[member_id], request, ticket, now_ms)
        return [], self._drain()

    def sync(self, request: SyncRequest, ticket: object, now_ms: int) -> Decision:
        error = self._check_sync(request)
        if error:
            return [], [Answer(ticket, SyncResult(error))]
        member = self.members.members[request.member_id]
        self.members.pending_sync.discard(member.member_id)
        if not self.members.pending_sync:
            self._effects.append(CancelTimer(SYNC_TIMER))
        if self.state is STABLE:
            self._effects.append(Answer(ticket, self._sync_result(member)))
        else:
            # The member's earlier request most likely came over a dead connection.
            self._answer_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
            member.sync_ticket = ticket
            if member.member_id == self.members.leader:
                assignments = {m.member_id: request.assignments.get(m.member_id, b"") for m in self.members}
                self._effects.append(Persist(self.generation_id, assignments, completes_sync=True))
        return [], self._drain()

    def heartbeat(
        self, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> tuple[ErrorCode, list[Effect]]:
        error = self._check_generation(member_id, group_instance_id, generation_id)
        if error:
            return error, []
        self._keep_session(self.members.members[member_id])
        if self.state is PREPARING:
            return ErrorCode.REBALANCE_IN_PROGRESS, self._drain()
        return ErrorCode.NONE, self._drain()

    def leave(
        self, leaving: Sequence[LeavingMember], now_ms: int
    ) -> tuple[list[ErrorCode], list[KeyValue], list[Effect]]:
        size = len(self.members)
        errors = [self._leave_one(member) for member in leaving]
        if len(self.members) < size:
            ids = ", ".join(m.member_id or m.group_instance_id or "" for m in leaving)
            self._rebalance_or_complete_join(f"{ids} left the group", now_ms)
        elif self.state is PREPARING:
            self._complete_join_if_all_joined(now_ms)  # the group no longer waits for a pending member
        return errors, [], self._drain()

    def commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        partitions: object = None,
        *,
        knows_epochs: bool = True,
    ) -> tuple[ErrorCode, list[Effect]]:
        """Check a commit. An accepted commit counts as a heartbeat."""
        if generation_id < 0 and self.state is EMPTY:
            return ErrorCode.NONE, []  # an admin client, or a consumer with manually assigned partitions
        error = self._check_generation(member_id, group_instance_id, generation_id)
        if error:
            return error, []
        if self.state is COMPLETING:
            return ErrorCode.REBALANCE_IN_PROGRESS, []
        self._keep_session(self.members.members[member_id])
        return ErrorCode.NONE, self._drain()

    def check_transactional_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        partitions: object = None,
    ) -> ErrorCode:
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and (self.state is EMPTY or (not member_id and group_instance_id is None)):
            return ErrorCode.NONE
        return self._check_generation(member_id, group_instance_id, generation_id)

    # Events

    def on_timer(self, key: TimerKey, now_ms: int) -> Decision:
        if key.kind is TimerKind.SESSION:
            self._on_session_timer(key.member_id, now_ms)
        elif key.kind is TimerKind.SYNC:
            self._on_sync_timer(now_ms)
        elif self.state is PREPARING:
            self._on_join_timer(now_ms)
        return [], self._drain()

    def on_persisted(self, persist: Persist, error: ErrorCode, now_ms: int) -> list[Effect]:
        """Handle the outcome of an append requested by `Persist`: fully replicated, or failed."""
        current = persist.generation_id == self.generation_id
        if persist.completes_sync and current and self.state is COMPLETING:
            if error:
                self._rebalance(f"the assignment could not be stored ({error.name})", now_ms, error)
            else:
                for member in self.members:
                    # A static member may have rejoined under another id in the meantime.
                    member.assignment = persist.assignments.get(member.member_id, b"")
                self._transition(STABLE, now_ms)
                for member in self.members:
                    self._answer_sync(member, self._sync_result(member))
        elif persist.replacement is not None and current and self.state is STABLE:
            self._finish_replacement(persist.replacement, error)
        return self._drain()

    def start_sessions(self, now_ms: int) -> list[Effect]:
        for member in self.members:
            self._keep_session(member)
        if len(self.members) > self._config.max_size:
            self._rebalance("the group is larger than group.max.size", now_ms)
        return self._drain()

    def downgraded(self, now_ms: int) -> list[Effect]:
        """Start a rebalance after the downgrade from a consumer group. Members rejoin, and the leader assigns."""
        for member in self.members:
            self._keep_session(member)
        self._rebalance("the last member of the consumer protocol has left", now_ms)
        return self._drain()

    def die(self, error: ErrorCode, now_ms: int) -> list[Effect]:
        for member_id in self.members.pending:
            self._effects.append(CancelTimer(session_timer(member_id)))
        for member in self.members:
            self._answer_join(member, JoinResult(error, member.member_id))
            self._answer_sync(member, SyncResult(error))
            self._effects.append(CancelTimer(session_timer(member.member_id)))
        self._effects += [CancelTimer(JOIN_TIMER), CancelTimer(SYNC_TIMER)]
        self._transition(DEAD, now_ms)
        return self._drain()

    def tombstones(self) -> list[KeyValue]:
        return [(group_key(self.group_id), None)]

    # Joining

    def _join_without_id(self, request: JoinRequest, ticket: object, now_ms: int) -> None:
        instance_id = request.group_instance_id
        if instance_id is not None:
            new_id = f"{instance_id}-{self._new_uuid()}"
            old_id = self.members.static.get(instance_id)
            if old_id is None:
                self._add_member(new_id, request, ticket, now_ms)
            else:
                self._replace_static_member(old_id, new_id, request, ticket, now_ms)
            return
        new_id = f"{request.client_id}-{self._new_uuid()}"
        if request.requires_known_member_id:
            self.members.pending.add(new_id)
            self._effects.append(SetTimer(session_timer(new_id), request.session_timeout_ms))
            self._refuse(ticket, new_id, ErrorCode.MEMBER_ID_REQUIRED)
        else:
            self._add_member(new_id, request, ticket, now_ms)

    def _add_member(self, member_id: str, request: JoinRequest, ticket: object, now_ms: int) -> None:
        if not self.members:
            self.protocol_type = request.protocol_type
        if self._in_initial_rebalance:
            self._new_member_added = True
        member = Member.from_request(member_id, request)
        self.members.add(member)
        self.members.park_join(member, ticket)
        # New members send no heartbeats until their join is answered. This timeout removes a member that went away.
        self._effects.append(SetTimer(session_timer(member_id), self._config.new_member_join_timeout_ms))
        self._rebalance_or_complete_join(f"{member_id} joined: {request.reason or 'no reason given'}", now_ms)

    def _rejoin(self, member: Member, request: JoinRequest, ticket: object, now_ms: int) -> None:
        is_leader = member.member_id == self.members.leader
        unchanged = member.protocols == request.protocols
        if self.state is PREPARING:
            self._park_join(member, request, ticket)
            self._complete_join_if_all_joined(now_ms)
        elif unchanged and (self.state is COMPLETING or (self.state is STABLE and not is_leader)):
            # The member missed the response to its last join; the generation is still valid.
            self._effects.append(Answer(ticket, self._join_result(member)))
        else:
            # A leader rejoins to trigger a new assignment, a follower because its subscription changed.
            self._park_join(member, request, ticket)
            self._rebalance(f"{member.member_id} rejoined: {request.reason or 'no reason given'}", now_ms)

    def _park_join(self, member: Member, request: JoinRequest, ticket: object) -> None:
        self._answer_join(member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        self.members.update(
            member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms
        )
        self.members.park_join(member, ticket)

    def _replace_static_member(
        self, old_id: str, new_id: str, request: JoinRequest, ticket: object, now_ms: int
    ) -> None:
        """Give a returning static member a new member id and fence the old one."""
        instance_id = request.group_instance_id or ""
        member = self.members.members[old_id]
        self._answer_join(member, JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_id))
        self._answer_sync(member, SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        replacement = StaticReplacement(
            instance_id,
            old_id,
            new_id,
            member.protocols,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            self.members.leader or "",
            request.supports_skipping_assignment,
        )
        self.members.replace_static(instance_id, old_id, new_id)
        self._park_join(member, request, ticket)
        self._effects.append(CancelTimer(session_timer(old_id)))
        self._keep_session(member)
        if self.state is STABLE and self.members.select_protocol() == self.protocol_name:
            assignments = {m.member_id: m.assignment for m in self.members}
            self._effects.append(Persist(self.generation_id, assignments, replacement=replacement))
        elif self.state is PREPARING:
            self._complete_join_if_all_joined(now_ms)
        else:
            # In CompletingRebalance the leader may be assigning partitions to the old id right now.
            self._rebalance(f"static member {instance_id} returned as {new_id}", now_ms)

    def _finish_replacement(self, replacement: StaticReplacement, error: ErrorCode) -> None:
        member = self.members.members.get(replacement.new_member_id)
        if member is None:
            return
        if error:
            self._answer_join(member, JoinResult(error, ""))
            self.members.update(
                member,
                replacement.old_protocols,
                replacement.old_rebalance_timeout_ms,
                replacement.old_session_timeout_ms,
            )
            self._effects.append(CancelTimer(session_timer(member.member_id)))
            self.members.replace_static(
                replacement.group_instance_id, replacement.new_member_id, replacement.old_member_id
            )
            self._keep_session(member)
            return
        result = self._join_result(member)
        if replacement.supports_skipping_assignment:
            result.skip_assignment = member.member_id == self.members.leader
        else:
            # An old client would run the assignor if it learned that it leads, so it receives the old leader's id.
            result.leader = replacement.old_leader
            result.members = []
        self._answer_join(member, result)

    # Rebalancing

    def _rebalance_or_complete_join(self, reason: str, now_ms: int) -> None:
        if self.state is PREPARING:
            self._complete_join_if_all_joined(now_ms)
        elif self.members or self.state is not EMPTY:
            self._rebalance(reason, now_ms)

    def _rebalance(
        self, reason: str, now_ms: int, sync_error: ErrorCode = ErrorCode.REBALANCE_IN_PROGRESS
    ) -> None:
        log.info("group %s leaves generation %d: %s", self.group_id, self.generation_id, reason)
        if self.state is COMPLETING:
            for member in self.members:
                member.assignment = b""
                self._answer_sync(member, SyncResult(sync_error))
        self.members.pending_sync.clear()
        self._effects.append(CancelTimer(SYNC_TIMER))
        is_initial = self.state is EMPTY
        self._transition(PREPARING, now_ms)
        if is_initial:
            delay = self._config.initial_rebalance_delay_ms
            self._new_member_added = False
            self._initial_delay = (delay, max(self.members.rebalance_timeout_ms - delay, 0))
            self._effects.append(SetTimer(JOIN_TIMER, delay))
        elif self.members.have_all_joined:
            self._complete_join(now_ms)
        else:
            self._effects.append(SetTimer(JOIN_TIMER, self.members.rebalance_timeout_ms))

    @property
    def _in_initial_rebalance(self) -> bool:
        return self.state is PREPARING and self.previous_state is EMPTY

    def _complete_join_if_all_joined(self, now_ms: int) -> None:
        # The first rebalance always waits out its delay because more members are likely to join.
        if not self._in_initial_rebalance and self.members.have_all_joined:
            self._complete_join(now_ms)

    def _on_join_timer(self, now_ms: int) -> None:
        delay, remaining = self._initial_delay
        if self._in_initial_rebalance and self._new_member_added and remaining:
            self._new_member_added = False
            longer = min(self._config.initial_rebalance_delay_ms, remaining)
            self._initial_delay = (longer, max(remaining - delay, 0))
            self._effects.append(SetTimer(JOIN_TIMER, longer))
        else:
            self._complete_join(now_ms)

    def _complete_join(self, now_ms: int) -> None:
        self._effects.append(CancelTimer(JOIN_TIMER))
        for member in list(self.members):
            if not member.is_awaiting_join and not member.is_static:
                self._remove(member.member_id)
        if self.members and not self.members.elect_joined_leader():
            # Only static members remain and none has rejoined: their session timeouts decide.
            self._effects.append(SetTimer(JOIN_TIMER, self.members.rebalance_timeout_ms))
            return
        self.generation_id += 1
        self.members.pending_sync.clear()
        if not self.members:
            self.protocol_name = None
            self.read_subscriptions()
            self._transition(EMPTY, now_ms)
            self._effects.append(Persist(self.generation_id, {}))
            return
        self.protocol_name = self.members.select_protocol()
        self.read_subscriptions()
        self._transition(COMPLETING, now_ms)
        for member in self.members:
            self._answer_join(member, self._join_result(member))
            self._keep_session(member)
            member.is_new = False
            self.members.pending_sync.add(member.member_id)
        self._effects.append(SetTimer(SYNC_TIMER, self.members.rebalance_timeout_ms))

    def _on_sync_timer(self, now_ms: int) -> None:
        late = list(self.members.pending_sync)
        if self.state in (COMPLETING, STABLE) and late:
            for member_id in late:
                self._remove(member_id)
            self._rebalance(f"{', '.join(late)} sent no SyncGroup in time", now_ms)

    def _on_session_timer(self, member_id: str, now_ms: int) -> None:
        member = self.members.members.get(member_id)
        if member is None:
            if member_id in self.members.pending:
                self.members.pending.discard(member_id)
                if self.state is PREPARING:
                    self._complete_join_if_all_joined(now_ms)
        elif member.session_may_lapse:
            self._remove(member_id)
            self._rebalance_or_complete_join(f"the session of {member_id} lapsed", now_ms)
