"""One node of the registry: follows the leader election, and executes commands sequentially while leading.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.client.errors import ClientError
from ottla.client.group_member import GroupMember
from ottla.registry.election import Identity, election_member
from ottla.registry.errors import RegistryError, unknown_leader
from ottla.registry.log import Fenced, Store
from ottla.registry.model.records import Write
from ottla.registry.model.scopes import Defaults
from ottla.registry.model.state import State
from ottla.registry.settings import RegistrySettings

_log = logging.getLogger(__name__)

T = TypeVar("T")


class NotLeader(Exception):
    """Nothing was written, because another node leads."""


class Node:
    def __init__(self, settings: RegistrySettings) -> None:
        self.settings = settings
        self.store = Store(
            settings.client,
            settings.topic,
            group=settings.group,
            replication_factor=settings.replication_factor,
            timeout=settings.timeout,
        )
        self.identity = Identity("", 0)
        self.leader: Identity | None = None
        self._own_noop = -1
        self._leads = False
        self._known = asyncio.Event()
        self._lock = asyncio.Lock()
        self._member: GroupMember | None = None
        self._taking_over: asyncio.Task[None] | None = None

    @property
    def state(self) -> State:
        return self.store.state

    @property
    def defaults(self) -> Defaults:
        return self.settings.defaults

    async def load(self) -> None:
        """Read the whole log. Raises UnusableTopic, ClientError or TimeoutError."""
        await self.store.start(self.settings.init_timeout)

    def join(self, identity: Identity) -> None:
        """Join the election under this address."""
        self.identity = identity
        loop = asyncio.get_running_loop()

        def announce(leader: Identity | None) -> None:
            loop.call_soon_threadsafe(self._elected, leader)

        self._member = election_member(
            self.settings.client, self.settings.group, identity, announce, self.settings.group_times
        )
        self._member.start()

    async def stop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._taking_over is not None:
            self._taking_over.cancel()
        if self._member is not None:
            await loop.run_in_executor(None, self._member.stop)
        await self.store.stop()

    # Leading

    @property
    def is_leader(self) -> bool:
        """Return True if this node leads, as far as it knows. A foreign NOOP shows that another node took over."""
        return self._leads and self.state.last_noop == self._own_noop

    def _elected(self, leader: Identity | None) -> None:
        if leader == self.identity:
            if not self.is_leader and (self._taking_over is None or self._taking_over.done()):
                self._known.clear()
                self._taking_over = asyncio.get_running_loop().create_task(self._take_over())
            return
        if self._taking_over is not None:
            self._taking_over.cancel()
        if self._leads:
            _log.warning("This node no longer leads the registry.")
        self._leads = False
        self.leader = leader
        if leader is None:
            self._known.clear()
        else:
            self._known.set()

    async def _take_over(self) -> None:
        while True:
            try:
                async with self._lock:
                    self._own_noop = await self.store.take_over()
                    self._leads = True
                    self.leader = self.identity
                    self._known.set()
                _log.info("This node, %s, leads the registry.", self.identity.url)
                return
            except (ClientError, RegistryError, Fenced) as error:
                _log.warning("Cannot take over as leader of the registry, and try again: %s", error)
                await asyncio.sleep(self.settings.client.retry_backoff)

    def _step_down(self) -> None:
        """Stop leading. Only the group elects a leader."""
        self._leads = False
        self.leader = None
        self._known.clear()
        if self._member is not None:
            self._member.rejoin()

    async def find_leader(self) -> Identity:
        """Wait for an election. Raises RegistryError 50004."""
        try:
            async with asyncio.timeout(self.settings.timeout):
                while True:
                    await self._known.wait()
                    if self._leads and not self.is_leader:
                        self._step_down()
                    elif self.leader is not None:
                        return self.leader
        except TimeoutError:
            raise unknown_leader() from None

    # Commands

    async def execute(
        self, decide: Callable[[State], tuple[T, Sequence[Write]]], *, takes_long: bool = False
    ) -> T:
        """Decide by the state and write the resulting records. Raises NotLeader, and errors of `decide`.

        Slow decisions run in a thread, to keep the event loop responsive. The state does not change in the meantime:
        only the leader writes, one command after the other, and each was read back.
        """
        async with self._lock:
            if not self.is_leader:
                raise NotLeader
            result, writes = await asyncio.to_thread(decide, self.state) if takes_long else decide(self.state)
            if writes:
                try:
                    await self.store.write(writes)
                except Fenced as reason:
                    _log.warning("A write was refused because another node has taken over: %s.", reason)
                    self._step_down()
                    raise NotLeader from None
            return result
