"""A second opinion, before a broker that refuses connections is taken for dead.

Who is refused may be the one that is cut off. So it asks the others, who see each other and the suspect over other
links, by a node in the store: a second broker that is refused as well makes it certain, one that gets through clears
the suspect. The suspect itself says that it lives; that counts where nobody else answers. A dead one answers nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress

from ottla.cluster.ending import end_tasks
from ottla.cluster.failure_detection import Presence, Target, probe
from ottla.metadata.store import CancelWatch, NodeExists, NodeStore, NoNode, StoreError

SUSPECTS = "/ottla/suspects"

_ANSWER_SECONDS = 1.0
# What a suspect's node says. It is removed by whoever reaches the suspect.
_ASKED, _HERE, _GONE = b"asked", b"here", b"gone"


class Suspicions:
    """Asks about others, and answers when others ask. Owner: the event loop."""

    def __init__(
        self, store: NodeStore, broker_id: int, registered: Callable[[], Mapping[int, Target]]
    ) -> None:
        """`registered` tells of all brokers, this one too, where they listen for others."""
        self._store = store
        self._broker_id = broker_id
        self._registered = registered
        self._answered: set[str] = set()  # what there was to answer when it was looked at last
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch: CancelWatch | None = None

    def start(self) -> None:
        self._watch = self._store.watch(SUSPECTS, self._asked, children=True)

    async def stop(self) -> None:
        if self._watch is not None:
            self._watch()
        await end_tasks(self._tasks)

    # Asking

    async def is_gone(self, target: Target, seconds: float = _ANSWER_SECONDS) -> bool:
        """Whether a broker that refuses this one is gone. StoreError if the others cannot be asked."""
        path = f"{SUSPECTS}/{_name(target, self._broker_id)}"
        while True:
            try:
                await self._store.create(path, _ASKED, ephemeral=True)
                break
            except NodeExists:  # of an attempt whose success was not heard of
                with suppress(NoNode):
                    await self._store.delete(path)
        try:
            return await self._wait_for_answer(path, seconds)
        finally:
            with suppress(StoreError):
                await self._store.delete(path)

    async def _wait_for_answer(self, path: str, seconds: float) -> bool:
        changed = asyncio.Event()
        cancel = self._store.watch(path, lambda _: changed.set())
        end = asyncio.get_running_loop().time() + seconds
        try:
            while True:
                changed.clear()
                [node] = await self._store.get_many([path])
                if node is None or node.data == _GONE:
                    return node is not None
                if asyncio.get_running_loop().time() >= end:
                    return node.data != _HERE
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(end):
                        await changed.wait()
        finally:
            cancel()

    # Answering

    def _asked(self, _: str) -> None:
        self._in_background(self._answer())

    async def _answer(self) -> None:
        with suppress(StoreError):
            names = set(await self._store.children(SUSPECTS))
            asked, self._answered = names - self._answered, names
            registered = self._registered()
            for name in asked:
                suspect, epoch, asker = map(int, name.split("-"))
                target = registered.get(suspect)
                if asker != self._broker_id and target is not None and target.epoch == epoch:
                    self._in_background(self._answer_about(target, f"{SUSPECTS}/{name}"))

    async def _answer_about(self, target: Target, path: str) -> None:
        with suppress(StoreError):
            if target.broker_id == self._broker_id:
                await self._store.set(path, _HERE, 0)  # unless somebody else has answered
                return
            presence = (await probe(target)).presence
            if presence is Presence.GONE:
                await self._store.set(path, _GONE)
            elif presence is Presence.SERVING:
                await self._store.delete(path)

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _name(target: Target, asker: int) -> str:
    """One for each who asks: nobody answers itself. A broker that begins a new life is another one."""
    return f"{target.broker_id}-{target.epoch}-{asker}"
