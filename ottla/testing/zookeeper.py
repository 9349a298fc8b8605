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

from ottla.jvm.zookeeper import NoZooKeeper, ServerSecurity, ZooKeeperServer
from ottla.testing.network import Network
from ottla.testing.ports import ReservedPorts

_HOST = "127.0.0.1"
_MOST_STARTS = 3
# Sessions expire at ticks: short ticks let tests see that soon.
_SETTINGS = {"tickTime": "500", "minSessionTimeout": "500", "forceSync": "no"}


class ZooKeeper:
    """ZooKeeper: start it with `with`, connect to `connect`. Servers are numbered from 1, as in ZooKeeper.

    With `faults` servers reach each other through relays in this process, as `cut` requires. `security` contains keys
    and users for restricted servers.
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
        self._own = {n: (next(ports), next(ports)) for n in range(1, servers + 1)}  # peer port, election port
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
        """Return the address at which a server reaches another, as in zoo.cfg."""
        own = self._own[called]
        if self._network is None:
            return f"{_HOST}:{own[0]}:{own[1]}"
        if caller == called:
            # A voting server announces its address, and the others call back there. For this wildcard address they use
            # their own zoo.cfg instead, which names a relay.
            return f"0.0.0.0:{own[0]}:{own[1]}"
        peer, election = (self._network.link(caller, called, _HOST, port) for port in own)
        return f"{_HOST}:{peer}:{election}"

    @property
    def connect(self) -> str:
        """Connection string for zookeeper.connect."""
        return ",".join(server.address for server in self.servers.values()) + self.path

    def chroot(self) -> ZooKeeper:
        """Return the same servers with a new root path, so that several clusters can share them."""
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
        """Start a killed server on its remaining data."""
        self.servers[server].start()

    def pause(self, server: int = 1) -> None:
        self._signal(server, signal.SIGSTOP)

    def resume(self, server: int = 1) -> None:
        self._signal(server, signal.SIGCONT)

    def cut(self, servers: int | Collection[int], others: int | Collection[int] | None = None) -> None:
        """Block all traffic between these servers and others (by default all others) until `heal`.

        Clients, including brokers, still reach every server.
        """
        cut_off = {servers} if isinstance(servers, int) else set(servers)
        rest = self.servers.keys() - cut_off if others is None else others
        for one in cut_off:
            for other in {rest} if isinstance(rest, int) else rest:
                self._relays.cut(one, other)
                self._relays.cut(other, one)

    def heal(self) -> None:
        self._relays.heal()

    @property
    def _relays(self) -> Network:
        if self._network is None:
            raise RuntimeError("this needs an ensemble that was made with ZooKeeper(3, faults=True)")
        return self._network

    def leader(self) -> int | None:
        """Return the server that claims to lead the ensemble, or None."""
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
    """Wait until the server answers.

    On a busy machine a server that is elected, resigns and is elected again may not get its port back in time, and
    ends. It is then started again.
    """
    for _ in range(_MOST_STARTS - 1):
        try:
            server.wait()
            return
        except NoZooKeeper:
            server.kill()
            server.launch()
    server.wait()
