"""Detect the death of a broker's process long before its session ends.

The detector keeps an idle connection to each watched broker. When a process dies, its system closes the connection at
once and refuses the next one. A busy or paused broker refuses nothing, and a broker that was never reached proves
nothing by being unreachable. A network can refuse connections as well, so `suspicions` asks the other brokers.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from ottla.cluster.background_tasks import end_tasks
from ottla.cluster.peers import PeerAddress, PeerDialer
from ottla.metadata.stores.store import StoreError
from ottla.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse

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
