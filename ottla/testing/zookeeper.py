"""A real ZooKeeper for tests: one server, or an ensemble whose servers can be killed, paused and cut off."""

from __future__ import annotations

import copy
import signal
import tempfile
import uuid
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.jvm.zookeeper import NoZooKeeper, ZooKeeperServer
from ottla.jvm.zookeeper_security import ServerSecurity
from ottla.testing.network import Network
from ottla.testing.ports import ReservedPorts

_HOST = "127.0.0.1"
_MOST_STARTS = 3
# Sessions end with a tick: with short ticks tests see them end soon.
_SETTINGS = {"tickTime": "500", "minSessionTimeout": "500", "forceSync": "no"}


class ZooKeeper:
    """Start it with `with`, reach it at `connect`. Servers are counted from 1, as in ZooKeeper.

    With `faults` servers reach each other through relays in this process: that is what `cut` needs. `security` has keys
    and users, for servers that not everybody may reach.
    """

    def __init__(
        self,
        servers: int = 1,
        *,
        data: str | Path | None = None,
        faults: bool = False,
        security: ServerSecurity | None = None,
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="ottla-zookeeper-") if data is None else None
        directory = Path(self._temporary.name if self._temporary is not None else str(data))
        self._reserved = ReservedPorts(3 * servers)
        ports = iter(self._reserved.numbers)
        self._own = {n: (next(ports), next(ports)) for n in range(1, servers + 1)}  # for peers, for elections
        self._network = Network() if faults else None
        self.path = ""
        self.servers = {
            n: ZooKeeperServer(
                directory / f"server-{n}",
                next(ports),
                server_id=n,
                ensemble={each: self._where(n, each) for each in self._own} if servers > 1 else None,
                settings=_SETTINGS,
                security=security,
            )
            for n in self._own
        }

    def _where(self, caller: int, called: int) -> str:
        """Where a server reaches another one, as in zoo.cfg."""
        own = self._own[called]
        if self._network is None:
            return f"{_HOST}:{own[0]}:{own[1]}"
        if caller == called:
            # A server that votes announces its address, and the others call it back there. For this address they look
            # into their own zoo.cfg instead, which names a relay.
            return f"0.0.0.0:{own[0]}:{own[1]}"
        peer, election = (self._network.link(caller, called, _HOST, port) for port in own)
        return f"{_HOST}:{peer}:{election}"

    @property
    def connect(self) -> str:
        """As in zookeeper.connect."""
        return ",".join(server.address for server in self.servers.values()) + self.path

    def chroot(self) -> ZooKeeper:
        """The same servers with a new path as root, so that several clusters can share them."""
        rooted = copy.copy(self)
        rooted.path = f"{self.path}/{uuid.uuid4()}"
        return rooted

    def start(self) -> Self:
        try:
            for server in self.servers.values():
                server.launch()
            for server in self.servers.values():
                _wait_for(server)
        except NoZooKeeper:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        for server in self.servers.values():
            server.kill()
        if self._network is not None:
            self._network.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def kill(self, server: int = 1) -> None:
        self.servers[server].kill()

    def restart(self, server: int = 1) -> None:
        """Start one that was killed, on the data that it left."""
        self.servers[server].start()

    def pause(self, server: int = 1) -> None:
        self._signal(server, signal.SIGSTOP)

    def resume(self, server: int = 1) -> None:
        self._signal(server, signal.SIGCONT)

    def cut(self, servers: int | Collection[int], others: int | Collection[int] | None = None) -> None:
        """Let nothing pass between these servers and others (all others, if none are named), until `heal`.

        Clients, brokers among them, still reach every server.
        """
        cut_off = {servers} if isinstance(servers, int) else set(servers)
        rest = self.servers.keys() - cut_off if others is None else others
        for one in cut_off:
            for other in {rest} if isinstance(rest, int) else rest:
                self._relays.cut(one, other)
                self._relays.cut(other, one)

    def heal(self) -> None:
        """Undo all cuts between servers."""
        self._relays.heal()

    @property
    def _relays(self) -> Network:
        if self._network is None:
            raise RuntimeError("this needs an ensemble that was made with ZooKeeper(3, faults=True)")
        return self._network

    def leader(self) -> int | None:
        """The server that says that it leads the ensemble; None while there is none."""
        for number, server in self.servers.items():
            if "Mode: leader" in server.ask("srvr"):
                return number
        return None

    def _signal(self, server: int, number: int) -> None:
        process = self.servers[server].process
        assert process is not None, "the server is not running"
        process.send_signal(number)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _wait_for(server: ZooKeeperServer) -> None:
    """Until it serves. One that is elected, resigns and is elected again may not get its port back in time on a busy
    machine, and ends: it is started again.
    """
    for _ in range(_MOST_STARTS - 1):
        try:
            server.wait()
            return
        except NoZooKeeper:
            server.kill()
            server.launch()
    server.wait()
