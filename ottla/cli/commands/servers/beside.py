"""The schema registry that `ottla start --registry` runs in the process of the broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.cli.commands.servers.secure_start import SecureStart
    from ottla.registry.background import BackgroundRegistry


class RegistryBeside:
    """Nothing, if no address is given. Where brokers ask for a login, it logs in as the admin."""

    def __init__(self, listen: str | None, secured: SecureStart | None) -> None:
        self._listen = listen
        self._secured = secured
        self._registry: BackgroundRegistry | None = None

    def start(self, brokers: Sequence[str]) -> None:
        """Blocks until it answers; not in the thread of the broker, which it needs."""
        if self._listen is None:
            return
        from ottla.cli.commands.servers.registry import start_beside

        client = None if self._secured is None else self._secured.data.client
        self._registry = start_beside(self._listen, [_reachable(each) for each in brokers], client)

    def stop(self) -> None:
        if self._registry is not None:
            self._registry.stop()

    @property
    def urls(self) -> list[str]:
        return [] if self._registry is None else self._registry.urls


def _reachable(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"localhost:{port}" if host in ("", "0.0.0.0", "[::]", "::") else address
