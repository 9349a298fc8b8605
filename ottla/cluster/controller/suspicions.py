"""A second opinion, before a broker that refuses connections is taken for dead.

The broker that is refused may be the one that is cut off. So it writes into the store whom it suspects. The others try
the suspect over their own links, and write down if they are refused too: once most brokers have, the suspect is gone.
Those that get through write that it lives, as it does itself. That decides if there is no such majority.
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
_PATIENCE = 4  # times as long, if brokers that live have not answered: they are busy
_KEPT_SECONDS = 4.0  # how long an answer counts


class Said(NamedTuple):
    """The name of a node: `broker_id` finds the suspect gone or, if both are the same, the suspect lives."""

    suspect: int
    epoch: int  # of the suspect's registration: after a restart it is another broker
    broker_id: int

    @property
    def path(self) -> str:
        return f"{SUSPECTS}/{self.suspect}-{self.epoch}-{self.broker_id}"


class Suspicions:
    """Asks about others, and answers when others ask. Owner: the event loop."""

    def __init__(self, store: NodeStore, broker_id: int, dialer: PeerDialer) -> None:
        self._store = store
        self._broker_id = broker_id
        self._dialer = dialer
        self._tried: set[tuple[int, int]] = set()  # suspects that others have asked about, and their epochs
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
        """Whether a broker that refuses this one is gone. StoreError if the others cannot be asked."""
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
        """Whether any of these brokers is there."""
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
