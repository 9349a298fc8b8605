"""A network that can be cut: TCP relays on this machine, one per pair of caller and target.

A relay forwards bytes, and listens only while its target does, so that callers notice a dead process as they would
without the relay. While cut, a relay forwards nothing and closes no connection. New connections are accepted and get no
answer, whatever happens to the target. As with real cables, streams have no gaps afterwards: bytes in transit arrive
when the cut is healed, if the connection is still open.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Coroutine, Hashable
from typing import Any, NamedTuple, TypeVar, cast

import uvloop

from ottla.testing.ports import ReservedPorts

T = TypeVar("T")

_HOST = "127.0.0.1"
_LOOK_AGAIN_SECONDS = 0.03


class Way(NamedTuple):
    """One direction between two processes. A connection has two."""

    source: Hashable
    target: Hashable

    @property
    def back(self) -> Way:
        return Way(self.target, self.source)


class Network:
    """All relays, on an event loop in its own thread; the methods are for other threads."""

    def __init__(self) -> None:
        self._relays: list[_Relay] = []
        self.dropped: set[Way] = set()
        self.refused: set[Way] = set()
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ottla-network", daemon=True)
        self._thread.start()

    def link(self, source: Hashable, target: Hashable, host: str, port: int) -> int:
        """Return a port at which `source` reaches `target`, which listens at that address now or later."""
        return self._run(self._link(Way(source, target), host, port))

    async def _link(self, way: Way, host: str, port: int) -> int:
        relay = _Relay(self, way, host, port)
        self._relays.append(relay)
        relay.changed()
        return relay.port

    def cut(self, source: Hashable, target: Hashable, *, refuse: bool = False) -> None:
        """Hold back traffic from one process to another. With `refuse`, break their connections and refuse new ones."""
        self._run(self._cut(Way(source, target), self.refused if refuse else self.dropped))

    async def _cut(self, way: Way, ways: set[Way]) -> None:
        ways.add(way)
        for relay in self._relays:
            if relay.way in (way, way.back):
                relay.changed()

    def heal(self) -> None:
        self._run(self._heal())

    async def _heal(self) -> None:
        self.dropped.clear()
        self.refused.clear()
        for relay in self._relays:
            relay.changed()

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        for relay in self._relays:
            relay.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # the loop closes aborted connections

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class _Relay:
    """The relay from one process to another.

    Invariant: it listens unless its target does not, or it has to refuse. Owner: the network's event loop.
    """

    def __init__(self, network: Network, way: Way, host: str, port: int) -> None:
        self.way = way
        self.host = host
        self.target_port = port
        self._network = network
        self.connections: set[_Connection] = set()
        self._reserved = ReservedPorts(1)  # the target's state is not known yet
        [self.port] = self._reserved.numbers
        self._server: asyncio.Server | None = None
        self._opening: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def sends(self) -> bool:
        return self.way not in self._network.dropped

    @property
    def answers(self) -> bool:
        return self.way.back not in self._network.dropped

    @property
    def is_whole(self) -> bool:
        return self.sends and self.answers

    @property
    def _refuses(self) -> bool:
        return not self._network.refused.isdisjoint((self.way, self.way.back))

    def changed(self) -> None:
        """Apply new or healed cuts."""
        if self._refuses:
            self.stop_listening()
            for connection in list(self.connections):
                connection.abort()
            return
        for connection in list(self.connections):
            connection.changed()
        if self._server is None:
            self.listen_when_due()
        elif self.is_whole:
            self.in_background(self.check())

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Listening

    def listen_when_due(self) -> None:
        if self._opening is None or self._opening.done():
            self._opening = asyncio.get_running_loop().create_task(self._listen_when_due())

    async def _listen_when_due(self) -> None:
        while not self._refuses and self._server is None:
            if not self.is_whole or await self._somebody_listens():
                with contextlib.suppress(OSError):  # a connection elsewhere uses the port for a moment
                    listener = _bound(self.port)
                    self._server = await asyncio.get_running_loop().create_server(
                        lambda: _End(_Connection(self)), sock=listener
                    )
                    return
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    def stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def check(self) -> None:
        """Stop listening if the target no longer listens."""
        if self.is_whole and self._server is not None and not await self._somebody_listens():
            self.nobody_listens()

    def nobody_listens(self) -> None:
        self.stop_listening()
        self.listen_when_due()

    async def _somebody_listens(self) -> bool:
        try:
            async with asyncio.timeout(1):
                _, writer = await asyncio.open_connection(self.host, self.target_port)
        except ConnectionRefusedError:
            return False
        except (OSError, TimeoutError):
            return True  # only busy
        writer.transport.abort()
        return True

    def close(self) -> None:
        self.stop_listening()
        for connection in list(self.connections):
            connection.abort()


class _Connection:
    """A connection through a relay: `near` is the caller's end, `far` the target's."""

    def __init__(self, relay: _Relay) -> None:
        self.relay = relay
        self.near: _End | None = None
        self.far: _End | None = None
        self._calling = False
        self._over = False

    def made(self, end: _End) -> None:
        if self._over:
            end.transport.abort()
        elif self.near is None:
            self.near = end
            self.relay.connections.add(self)
        else:
            self.far = end
        self.changed()

    def changed(self) -> None:
        """Read from an end if the other end exists and the direction is not cut."""
        relay, near, far = self.relay, self.near, self.far
        if near is None or self._over:
            return
        if far is None:
            near.pass_on(None, False)
            if relay.is_whole and not self._calling:
                self._calling = True
                relay.in_background(self._call())
            return
        near.pass_on(far, relay.sends)
        far.pass_on(near, relay.answers)

    async def _call(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: _End(self), self.relay.host, self.relay.target_port)
        except ConnectionRefusedError:
            self.relay.nobody_listens()
            self.abort()
        except OSError:
            self.abort()

    def ended(self, end: _End) -> None:
        if self._over:
            return
        self._over = True
        self.relay.connections.discard(self)
        if end is self.far:
            self.relay.in_background(self._hang_up())
        elif self.far is not None:
            self.far.transport.close()

    async def _hang_up(self) -> None:
        """Check the target before notifying the caller: if it has died, new connections have to be refused."""
        await self.relay.check()
        assert self.near is not None
        self.near.transport.close()

    def abort(self) -> None:
        self._over = True
        self.relay.connections.discard(self)
        for end in (self.near, self.far):
            if end is not None:
                end.transport.abort()


class _End(asyncio.Protocol):
    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self.transport: asyncio.Transport
        self._is_full = False
        self._reads = True
        self._other: _End | None = None
        self._held = bytearray()  # data that arrived despite a pause

    def pass_on(self, other: _End | None, allowed: bool) -> None:
        """Read for the other end, if permitted and it has room."""
        self._other = other if allowed else None
        if self._other is not None and self._held:
            if not self._other.transport.is_closing():
                self._other.transport.write(bytes(self._held))
            self._held.clear()
        reads = self._other is not None and not self._other._is_full
        if reads != self._reads and not self.transport.is_closing():
            self._reads = reads
            (self.transport.resume_reading if reads else self.transport.pause_reading)()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection.made(self)

    def data_received(self, data: bytes) -> None:
        if self._other is not None:
            if not self._other.transport.is_closing():
                self._other.transport.write(data)
        else:
            self._held += data
            self.transport.pause_reading()

    def pause_writing(self) -> None:
        self._is_full = True
        self._connection.changed()

    def resume_writing(self) -> None:
        self._is_full = False
        self._connection.changed()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.ended(self)


def _bound(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((_HOST, port))
    except OSError:
        listener.close()
        raise
    return listener
