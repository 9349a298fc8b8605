"""A real ZooKeeper for tests: one server, or an ensemble whose servers can be killed and paused."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.jvm.zookeeper import NoZooKeeper, ZooKeeperServer
from ottla.testing.ports import ReservedPorts

# Ticks are the ensemble's sense of time: short ones let tests see sessions end soon.
_SETTINGS = {"tickTime": "500", "minSessionTimeout": "500", "forceSync": "no"}


class ZooKeeper:
    """Start it with `with`, reach it at `connect`. Servers are counted from 1, as in ZooKeeper."""

    def __init__(self, servers: int = 1, *, data: str | Path | None = None) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="ottla-zookeeper-") if data is None else None
        directory = Path(self._temporary.name if self._temporary is not None else str(data))
        self._reserved = ReservedPorts(3 * servers)
        ports = self._reserved.numbers
        ensemble = {n: f"127.0.0.1:{ports[3 * n - 2]}:{ports[3 * n - 1]}" for n in range(1, servers + 1)}
        self.servers = {
            n: ZooKeeperServer(
                directory / f"server-{n}",
                ports[3 * n - 3],
                server_id=n,
                ensemble=ensemble if servers > 1 else None,
                settings=_SETTINGS,
            )
            for n in ensemble
        }

    @property
    def connect(self) -> str:
        """As in zookeeper.connect."""
        return ",".join(server.address for server in self.servers.values())

    def start(self) -> Self:
        try:
            for server in self.servers.values():
                server.launch()
            for server in self.servers.values():
                server.wait()
        except NoZooKeeper:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        for server in self.servers.values():
            server.kill()
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
