"""Get a second opinion before treating a broker that refuses connections as dead.

The refused broker may itself be cut off, so it writes its suspicion into the store. The other brokers try the suspect
over their own links and record refusals: the suspect is dead once a majority of brokers is refused. Brokers that get
through record that the suspect lives, as does the suspect itself. Without a majority such a record decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from ottla.cluster.background_tasks import end_tasks, start_task
from ottla.cluster.controller.failure_detection import Presence, probe
from ottla.cluster.peers import PeerAddress, PeerDialer
from ottla.metadata.stores.store import CancelWatch, NodeExists, NodeStore, StoreError

SUSPECTS = "/ottla/suspects"

_ANSWER_SECONDS = 1.5
_PATIENCE = 4  # factor for the wait if live brokers have not answered: they are busy
_KEPT_SECONDS = 4.0  # lifetime of an answer


class Said(NamedTuple):
    """A node's name: `broker_id` considers the suspect dead. Equal ids mean that the suspect reports itself alive."""

    suspect: int
    epoch: int  # epoch of the suspect's registration, which a restart changes
    broker_id: int

    @property
    def path(self) -> str:
        return f"{SUSPECTS}/{self.suspect}-{self.epoch}-{self.broker_id}"


class Suspicions:
    """Asks other brokers about a suspect, and answers their questions. Owner: the event loop."""

    def __init__(self, store: NodeStore, broker_id: int, dialer: PeerDialer) -> None:
        self._store = store
        self._broker_id = broker_id
        self._dialer = dialer
        self._tried: set[tuple[int, int]] = set()  # suspects named by other brokers, and their epochs
        self._waiting: set[asyncio.Event] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._cancel_watch: CancelWatch | None = None

    def start(self) -> None:
        self._cancel_watch = self._store.watch(SUSPECTS, self._changed, children=True)

    async def stop(self) -> None:
        if self._cancel_watch is not None:
            self._cancel_watch()
            self._cancel_watch = None
        await end_tasks(self._tasks)

    # Asking

    async def is_gone(self, target: PeerAddress, seconds: float = _ANSWER_SECONDS) -> bool:
        """Return True if a broker that refuses this one is dead. Raises StoreError if the other brokers cannot be
        asked.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        last = end + seconds * (_PATIENCE - 1)
        changed = asyncio.Event()
        self._waiting.add(changed)
        try:
            await self._say(target, self._broker_id)
            while True:
                changed.clear()
                brokers = self._dialer.addresses().keys()
                voices = {each.broker_id for each in await self._read() if _is_about(each, target)}
                refused = (voices & brokers | {self._broker_id}) - {target.broker_id}
                if 2 * len(refused) > len(brokers):
                    return True
                if loop.time() >= end:
                    others = brokers - voices - {target.broker_id, self._broker_id}
                    if target.broker_id in voices or loop.time() >= last or not await self._answers(others):
                        return target.broker_id not in voices
                    end += seconds
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(end):
                        await changed.wait()
        finally:
            self._waiting.discard(changed)

    async def _answers(self, brokers: Iterable[int]) -> bool:
        """Return True if any of these brokers responds."""
        addresses = self._dialer.addresses(brokers).values()
        probed = await asyncio.gather(*(probe(self._dialer, each) for each in addresses))
        return any(each.presence is Presence.SERVING for each in probed)

    async def _read(self) -> list[Said]:
        return [Said(*map(int, name.split("-"))) for name in await self._store.children(SUSPECTS)]

    async def _say(self, target: PeerAddress, voice: int) -> None:
        said = Said(target.broker_id, target.epoch, voice)
        with suppress(NodeExists):
            await self._store.create(said.path, ephemeral=True)
        start_task(self._tasks, self._take_back(said))

    async def _take_back(self, said: Said) -> None:
        await asyncio.sleep(_KEPT_SECONDS)
        with suppress(StoreError):
            await self._store.delete(said.path)

    # Answering

    def _changed(self, _: str) -> None:
        if self._cancel_watch is None:
            return
        for waiting in self._waiting:
            waiting.set()
        start_task(self._tasks, self._answer())

    async def _answer(self) -> None:
        with suppress(StoreError):
            said = await self._read()
            suspects = {(each.suspect, each.epoch) for each in said if each.suspect != each.broker_id}
            mine = {(each.suspect, each.epoch) for each in said if each.broker_id == self._broker_id}
            asked = suspects - self._tried - mine
            self._tried = (self._tried & suspects) | asked
            for target in self._asked_about(asked):
                start_task(self._tasks, self._try(target))

    def _asked_about(self, asked: Iterable[tuple[int, int]]) -> list[PeerAddress]:
        found = [(self._dialer.address(suspect), epoch) for suspect, epoch in asked]
        return [target for target, epoch in found if target is not None and target.epoch == epoch]

    async def _try(self, target: PeerAddress) -> None:
        with suppress(StoreError):
            if target.broker_id == self._broker_id:
                presence = Presence.SERVING
            else:
                presence = (await probe(self._dialer, target)).presence
            if presence is not Presence.SILENT:
                await self._say(target, self._broker_id if presence is Presence.GONE else target.broker_id)


def _is_about(said: Said, target: PeerAddress) -> bool:
    return (said.suspect, said.epoch) == (target.broker_id, target.epoch)
