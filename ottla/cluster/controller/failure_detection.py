"""Failure detection of brokers: suspicions of their peers, and the decision."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from ottla.cluster.background_tasks import end_tasks, start_task
from ottla.cluster.peers import PeerAddress, PeerDialer
from ottla.metadata.stores.store import CancelWatch, NodeExists, NodeStore, StoreError
from ottla.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse

# Detect the death of a broker's process long before its session ends.
#
# The detector keeps an idle connection to each watched broker. When a process dies, its system closes the connection at
# once and refuses the next one. A busy or paused broker refuses nothing, and a broker that was never reached proves
# nothing by being unreachable. A network can refuse connections as well, so `suspicions` asks the other brokers.

logger = logging.getLogger(__name__)

_REFUSALS = 2
_BETWEEN_REFUSALS = 0.02
_BETWEEN_ATTEMPTS = 0.5
_CONNECT_SECONDS = 5.0
_PROBE_SECONDS = 1.0
_STABLE_SECONDS = 1.0  # a connection that lasted this long was good


class Presence(enum.Enum):
    SERVING = "serving"
    SILENT = "silent"  # still starting, busy, paused, or out of reach
    GONE = "gone"  # connections are refused


class Probed(NamedTuple):
    presence: Presence
    apis: frozenset[int] = frozenset()  # supported API keys


async def probe(dialer: PeerDialer, target: PeerAddress, seconds: float = _PROBE_SECONDS) -> Probed:
    """Probe a broker. While it starts, its port is open but nothing answers."""
    for attempt in range(_REFUSALS):
        if attempt:
            await asyncio.sleep(_BETWEEN_REFUSALS)
        peer = dialer.connection(target, "probe", connect_timeout=seconds)
        try:
            async with asyncio.timeout(seconds):
                answer: ApiVersionsResponse = await peer.request(ApiVersionsRequest(), 0)
            return Probed(Presence.SERVING, frozenset(each.api_key for each in answer.api_keys))
        except ConnectionRefusedError:
            continue
        except (OSError, TimeoutError):
            return Probed(Presence.SILENT)
        finally:
            peer.close()
    return Probed(Presence.GONE)


class FailureDetector:
    """Watch brokers, and report the dead and the returning ones. Owner: the event loop."""

    def __init__(
        self,
        dialer: PeerDialer,
        is_gone: Callable[[PeerAddress], Awaitable[bool]],
        on_gone: Callable[[PeerAddress], None],
        on_back: Callable[[PeerAddress], None],
    ) -> None:
        """`is_gone` decides about a broker that refuses connections; it raises StoreError if it cannot tell yet."""
        self._dialer = dialer
        self._is_gone = is_gone
        self._on_gone = on_gone
        self._on_back = on_back
        self._watching: dict[PeerAddress, asyncio.Task[None]] = {}

    def watch(self, targets: Mapping[int, PeerAddress]) -> None:
        """Watch exactly these brokers."""
        wanted = set(targets.values())
        for target in [each for each in self._watching if each not in wanted]:
            self._watching.pop(target).cancel()
        for target in wanted:
            if target not in self._watching:
                self._watching[target] = asyncio.get_running_loop().create_task(self._watch(target))

    async def stop(self) -> None:
        tasks = list(self._watching.values())
        self._watching.clear()
        await end_tasks(tasks)

    async def _watch(self, target: PeerAddress) -> None:
        reached = gone = False
        refused = 0
        pause = _BETWEEN_REFUSALS
        while True:
            peer = self._dialer.connection(target, "watch", connect_timeout=_CONNECT_SECONDS)
            try:
                await peer.connect()
            except ConnectionRefusedError:
                refused += 1
                if reached and not gone:
                    if refused >= _REFUSALS:
                        reached = gone = await self._find_out(target)
                    await asyncio.sleep(_BETWEEN_REFUSALS)
                    continue
            except OSError:
                refused = 0
            else:
                reached, refused = True, 0
                if gone:
                    gone = False
                    self._on_back(target)
                began = asyncio.get_running_loop().time()
                try:
                    await peer.wait_lost()
                finally:
                    peer.close()
                if asyncio.get_running_loop().time() - began > _STABLE_SECONDS:
                    pause = _BETWEEN_REFUSALS
                else:
                    # The broker accepted and closed the connection: it is dying, or it has reached its connection
                    # limit.
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _BETWEEN_ATTEMPTS)
                continue
            await asyncio.sleep(_BETWEEN_ATTEMPTS)

    async def _find_out(self, target: PeerAddress) -> bool:
        """Return True and report the broker if one that refuses connections is dead."""
        while True:
            try:
                gone = await self._is_gone(target)
                break
            except StoreError:
                await asyncio.sleep(_BETWEEN_ATTEMPTS)
        if gone:
            logger.warning("Broker %d is gone: its port refuses connections", target.broker_id)
            self._on_gone(target)
        else:
            logger.warning(
                "Broker %d refuses this broker's connections, but others reach it", target.broker_id
            )
        return gone


# Get a second opinion before treating a broker that refuses connections as dead.
#
# The refused broker may itself be cut off, so it writes its suspicion into the store. The other brokers try the suspect
# over their own links and record refusals: the suspect is dead once a majority of brokers is refused. Brokers that get
# through record that the suspect lives, as does the suspect itself. Without a majority such a record decides.

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
