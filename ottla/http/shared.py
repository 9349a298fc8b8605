"""State shared by all connections of a server."""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol

from ottla.http.dispatch import Dispatcher
from ottla.http.messages import Limits
from ottla.security.principal import ANONYMOUS, USER_TYPE, KafkaPrincipal, PrincipalMapper


class Connection(Protocol):
    """One socket, as seen by the server."""

    def check_deadlines(self, now: float) -> None:
        """Disconnect a client that is too slow. Called about once a second."""

    def stop(self) -> bool:
        """Refuse new requests. Return True if the connection was idle and has been closed."""

    def abort(self) -> None: ...


class Shared:
    def __init__(
        self, dispatcher: Dispatcher, limits: Limits, max_body: int, mapper: PrincipalMapper | None
    ) -> None:
        self.dispatcher = dispatcher
        self.limits = limits
        self.max_body = max_body
        self.loop = asyncio.get_running_loop()
        self.connections: set[Connection] = set()
        self.tasks: set[asyncio.Task[None]] = set()  # the loop itself keeps only weak references
        self.stopping = False
        self._mapper = mapper
        self.date = ""
        self.tick()

    def tick(self) -> None:
        """Update the Date header once a second instead of once per response."""
        self.date = formatdate(time.time(), usegmt=True)

    def keep(self, task: asyncio.Task[None]) -> None:
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def principal(self, tls_name: str | None) -> KafkaPrincipal:
        """Raises NoRuleApplies."""
        if tls_name is None:
            return ANONYMOUS
        name = tls_name if self._mapper is None else self._mapper.name(tls_name)
        return KafkaPrincipal(USER_TYPE, name)


class Client:
    """The other end of a connection."""

    __slots__ = ("peer", "principal", "tls_name")

    def __init__(self, peer: str, tls_name: str | None, principal: KafkaPrincipal) -> None:
        self.peer = peer
        self.tls_name = tls_name
        self.principal = principal


_REASONS = {status.value: status.phrase for status in HTTPStatus}
_STATUS_LINES = {code: f"HTTP/1.1 {code} {phrase}\r\n" for code, phrase in _REASONS.items()}


def status_line(status: int) -> str:
    return _STATUS_LINES.get(status) or f"HTTP/1.1 {status} Status\r\n"


def check_header(name: str, value: str) -> None:
    """Reject values that would start a header of their own."""
    if "\r" in value or "\n" in value or "\0" in value or "\r" in name or "\n" in name:
        raise ValueError(f"The response header {name!r} has a line break in it.")
