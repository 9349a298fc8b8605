"""A driver for the bare state machine: a manual clock, timers in a dict, responses by ticket."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from ottla.coordinator.groups.base.base_group import Decision, GroupConfig
from ottla.coordinator.groups.base.effects import (
    Answer,
    CancelTimer,
    Effect,
    JoinRequest,
    JoinResult,
    LeavingMember,
    MemberProtocol,
    Persist,
    SetTimer,
    SyncRequest,
    SyncResult,
    TimerKey,
)
from ottla.coordinator.groups.classic.classic_group import ClassicGroup
from ottla.protocol.errors import ErrorCode

RANGE = (MemberProtocol("range", b"range-metadata"),)


def subscription(*topics: str) -> bytes:
    names = b"".join(len(t).to_bytes(2, "big") + t.encode() for t in topics)
    return b"\x00\x01" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x00"


class Machine:
    """Drives one group; appends succeed immediately unless `hold_appends`."""

    def __init__(self, **config: int) -> None:
        self.config = GroupConfig(**config)
        self.now = 1_000_000
        numbers = count(1)
        self.group = ClassicGroup("g", self.config, lambda: f"uuid{next(numbers)}", self.now)
        self.timers: dict[TimerKey, int] = {}
        self.answers: dict[object, JoinResult | SyncResult] = {}
        self.tickets: set[object] = set()
        self.persisted: list[Persist] = []
        self.held: list[Persist] = []
        self.hold_appends = False
        self._tickets = count(1)

    def join(
        self,
        member_id: str = "",
        *,
        protocols: Iterable[tuple[str, bytes]] = RANGE,
        instance: str | None = None,
        session: int = 10_000,
        rebalance: int = 60_000,
        known: bool = False,
        skip: bool = True,
        protocol_type: str = "consumer",
    ) -> int:
        request = JoinRequest(
            member_id,
            protocol_type,
            tuple(MemberProtocol(*p) for p in protocols),
            session,
            rebalance,
            instance,
            "client",
            "/127.0.0.1",
            requires_known_member_id=known,
            supports_skipping_assignment=skip,
        )
        ticket = self._ticket()
        self.decided(self.group.join(request, ticket, self.now))
        return ticket

    def sync(
        self,
        member_id: str,
        assignments: dict[str, bytes] | None = None,
        *,
        generation: int | None = None,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> int:
        generation = self.group.generation_id if generation is None else generation
        request = SyncRequest(
            member_id, generation, assignments or {}, instance, protocol_type, protocol_name
        )
        ticket = self._ticket()
        self.decided(self.group.sync(request, ticket, self.now))
        return ticket

    def heartbeat(
        self, member_id: str, *, generation: int | None = None, instance: str | None = None
    ) -> ErrorCode:
        generation = self.group.generation_id if generation is None else generation
        error, effects = self.group.heartbeat(member_id, instance, generation)
        self.run(effects)
        return error

    def commit(
        self, member_id: str = "", *, generation: int | None = None, instance: str | None = None
    ) -> ErrorCode:
        generation = self.group.generation_id if generation is None else generation
        error, effects = self.group.commit(member_id, instance, generation)
        self.run(effects)
        return error

    def leave(self, *leaving: LeavingMember) -> list[ErrorCode]:
        errors, records, effects = self.group.leave(leaving, self.now)
        self.decided((records, effects))
        return errors

    def advance(self, milliseconds: int) -> None:
        """Advance the clock; timers fire in the order of their deadlines."""
        end = self.now + milliseconds
        while self.timers:
            key = min(self.timers, key=self.timers.__getitem__)
            if self.timers[key] > end:
                break
            self.now = max(self.now, self.timers.pop(key))
            self.decided(self.group.on_timer(key, self.now))
        self.now = end

    def release(self, error: ErrorCode = ErrorCode.NONE) -> None:
        held, self.held = self.held, []
        for persist in held:
            self.run(self.group.on_persisted(persist, error, self.now))

    def decided(self, decision: Decision) -> None:
        records, effects = decision
        assert records == [], "a classic group writes by Persist"
        self.run(effects)

    def run(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                assert effect.ticket not in self.answers, "a request was answered twice"
                assert effect.ticket in self.tickets
                self.answers[effect.ticket] = effect.result
            elif isinstance(effect, SetTimer):
                self.timers[effect.key] = self.now + effect.delay_ms
            elif isinstance(effect, CancelTimer):
                self.timers.pop(effect.key, None)
            else:
                self.persisted.append(effect)
                if self.hold_appends:
                    self.held.append(effect)
                else:
                    self.run(self.group.on_persisted(effect, ErrorCode.NONE, self.now))

    def joined(self, ticket: object) -> JoinResult:
        result = self.answers[ticket]
        assert isinstance(result, JoinResult)
        return result

    def synced(self, ticket: object) -> SyncResult:
        result = self.answers[ticket]
        assert isinstance(result, SyncResult)
        return result

    def stable(self, *instances: str | None, **options: object) -> list[str]:
        """Form a stable group of these members (None: dynamic) and return their ids; the first leads."""
        tickets = [self.join(instance=i, **options) for i in instances]  # type: ignore[arg-type]
        self.advance(2 * self.config.initial_rebalance_delay_ms)
        members = [self.joined(t).member_id for t in tickets]
        for member in reversed(members):
            self.sync(member, {m: b"for " + m.encode() for m in members})
        return members

    def _ticket(self) -> int:
        ticket = next(self._tickets)
        self.tickets.add(ticket)
        return ticket
