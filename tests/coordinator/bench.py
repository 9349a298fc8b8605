"""A whole coordinator on a fake log and a fake clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from itertools import count

from ottla.coordinator.groups.base.base_group import GroupConfig
from ottla.coordinator.groups.base.effects import (
    JoinRequest,
    JoinResult,
    MemberProtocol,
    SyncRequest,
    SyncResult,
)
from ottla.coordinator.groups.group_coordinator import GroupCoordinator
from ottla.coordinator.runtime import Timers, partition_for
from tests.coordinator.clocks import FakeClock
from tests.coordinator.fake_log import FakeStateLog
from tests.coordinator.groups.classic.machine import subscription


class Bench:
    """Leads all partitions from the start; `restart` loses everything but the log."""

    def __init__(self, **config: int) -> None:
        self.config = GroupConfig(**{"initial_rebalance_delay_ms": 0, **config})
        self.clock = FakeClock()
        self.log = FakeStateLog()
        self.uuids = count(1)
        self.groups = self._new()

    def _new(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.config,
            self.log,
            timers=Timers(self.clock.seconds, self.clock.call_later),
            clock=self.clock.milliseconds,
            new_uuid=lambda: f"uuid{next(self.uuids)}",
        )

    async def lead(self, partitions: int = 50) -> Bench:
        for partition in range(partitions):
            await self.groups.runtime.become_leader(partition, 1)
        return self

    async def restart(self) -> None:
        self.groups.close()
        self.groups = self._new()
        await self.lead()

    def partition(self, group_id: str) -> int:
        return partition_for(group_id, 50)

    def join(
        self,
        group_id: str = "g",
        member_id: str = "",
        *,
        topics: tuple[str, ...] = ("t",),
        instance: str | None = None,
        known: bool = False,
        session: int = 10_000,
        protocol_type: str = "consumer",
    ) -> asyncio.Future[JoinResult]:
        request = JoinRequest(
            member_id,
            protocol_type,
            (MemberProtocol("range", subscription(*topics)),),
            session,
            60_000,
            instance,
            "client",
            "/127.0.0.1",
            requires_known_member_id=known,
        )
        return asyncio.ensure_future(self.groups.classic.join(group_id, request))

    async def stable(self, group_id: str = "g", **options: object) -> str:
        """Create a stable group with one member, its leader, and return the member id."""
        joining = self.join(group_id, **options)  # type: ignore[arg-type]
        await self.clock.run()
        joined = await joining
        assert not joined.error
        synced = await self.sync(group_id, joined.member_id, joined.generation_id)
        assert not synced.error
        return joined.member_id

    async def sync(self, group_id: str, member_id: str, generation: int) -> SyncResult:
        result = self.groups.classic.sync(
            group_id, SyncRequest(member_id, generation, {member_id: b"assigned"})
        )
        return await result if isinstance(result, Awaitable) else result
