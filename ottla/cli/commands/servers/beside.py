"""The services of `ottla start --registry --rest --connect --tables --console`, in the broker's process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli import output
from ottla.cli.errors import require

if TYPE_CHECKING:
    from ottla.cli.commands.servers.secure_start import SecureStart
    from ottla.cli.jobs.tables_beside import TablesBeside
    from ottla.http.background import InBackground


class ServersBeside:
    """Runs the services that have an address.

    Beside secured brokers every service requires a login of the cluster and checks the caller's rights. The services
    themselves reach the brokers, and each other, as the admin.
    """

    def __init__(
        self,
        registry: str | None,
        rest: str | None,
        console: str | None,
        secured: SecureStart | None,
        connect: str | None = None,
        connect_files: Sequence[Path] = (),
        tables: str | None = None,
    ) -> None:
        for extra, address in (
            ("registry", registry), ("rest", rest), ("console", console), ("connect", connect), ("tables", tables),
        ):  # fmt: skip
            if address is not None:
                require(extra)  # now, and not when the brokers run
        self._registry = registry
        self._rest = rest
        self._console = console
        self._connect = connect
        self._connect_files = [str(each.absolute()) for each in connect_files]
        self._tables = tables
        self._secured = secured
        self._running: list[InBackground | TablesBeside] = []
        #: Where each of them listens, by its name.
        self.urls: dict[str, str] = {}

    def start(self, brokers: Sequence[str]) -> None:
        """Block until all services answer. Never call this in the broker's thread: the services need the broker."""
        from ottla.cli.commands.servers import console, registry, rest

        client = None if self._secured is None else self._secured.data.client
        reachable = [_reachable(each) for each in brokers]
        try:
            if self._registry is not None:
                self._add("Registry", registry.start_beside(self._registry, reachable, client))
            if self._rest is not None:
                schemas = self.urls.get("Registry")
                self._add("REST", rest.start_beside(self._rest, reachable, client, schemas))
            if self._connect is not None:
                from ottla.cli.commands import connect_worker as worker

                output.note("Starting Spark for the Connect worker …")
                self._add(
                    "Connect", worker.start_beside(self._connect, reachable, client, self._connect_files)
                )
            if self._tables is not None:
                from ottla.cli.jobs.tables_beside import TablesBeside

                output.note("Starting Spark for the tables …")
                beside = TablesBeside(self._tables)
                self._add("Tables", beside.start(reachable, client, self._as_admin("Registry")))
            if self._console is not None:
                others = (self._as_admin("Registry"), self._as_admin("Connect"))
                data = None if self._secured is None else self._secured.data
                running, link = console.start_beside(self._console, reachable, *others, data)
                self._add("Console", running)
                if link is not None:
                    self.urls["Log in"] = f"{link} (works once; later as admin, with the admin's password)"
        except BaseException:
            self.stop()
            raise

    def _as_admin(self, name: str) -> str | None:
        url = self.urls.get(name, "").partition(",")[0]
        password = "" if self._secured is None else self._secured.data.admin_password()
        if not url or not password:
            return url or None
        from urllib.parse import quote

        from ottla.cli.jobs.secured_data import ADMIN

        return url.replace("://", f"://{ADMIN}:{quote(password, safe='')}@", 1)

    def _add(self, name: str, server: InBackground | TablesBeside) -> None:
        self._running.append(server)
        self.urls[name] = ", ".join(server.urls)

    def stop(self) -> None:
        while self._running:
            self._running.pop().stop()


def _reachable(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"localhost:{port}" if host in ("", "0.0.0.0", "[::]", "::") else address
