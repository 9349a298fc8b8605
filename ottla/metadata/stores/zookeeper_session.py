"""The ZooKeeper session, through kazoo: connection, lease and requests.

kazoo works in its own threads. Everything here runs on the event loop; those threads only pass events to it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import Connect

from ottla.metadata.stores.store import (
    ANY_VERSION,
    BadVersion,
    EphemeralParent,
    NodeError,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionState,
    StoreError,
    check_path,
)
from ottla.zookeeper import NodeAcls, open_to_all

logger = logging.getLogger(__name__)

T = TypeVar("T")

_ERRORS: dict[type[Exception], type[NodeError]] = {
    NoNodeError: NoNode,
    NodeExistsError: NodeExists,
    BadVersionError: BadVersion,
    NotEmptyError: NotEmpty,
    NoChildrenForEphemeralsError: EphemeralParent,
}
_LOST = (ConnectionLoss, SessionExpiredError, ConnectionClosedError, OperationTimeoutError, KazooTimeoutError)

# Fraction of the session timeout to trust, since clocks run at different speeds.
_TRUSTED = 5 / 6
# Renewals of the lease per session timeout.
_RENEWALS = 6
_RENEW_AGAIN_SECONDS = 0.2  # after a failed renewal
_FIRST_BACKOFF = 0.05
_LAST_BACKOFF = 1.0


def _without_contents(record: logging.LogRecord) -> bool:
    """Drop kazoo's debug records of messages and logins, because they contain credentials."""
    if record.levelno <= logging.DEBUG and isinstance(record.args, tuple):
        record.args = tuple(
            each if isinstance(each, int | float | str | Exception) else _outline(each)
            for each in record.args
        )
    return True


def _outline(thing: object) -> str:
    return f"{type(thing).__name__} {getattr(thing, 'path', '')}".rstrip()


_kazoo_logger = logging.getLogger("kazoo")
_kazoo_logger.addFilter(_without_contents)


class StoreUnavailable(StoreError):
    """The ensemble did not answer: the outcome of a write is unknown."""


class ZooKeeperSession:
    """Invariant: while open, a session exists or is being created. Owner: the event loop."""

    def __init__(
        self,
        connect: str,
        session_timeout: float,
        operation_timeout: float,
        connection_timeout: float,
        connected: Callable[[bool], None],
        make_client: Callable[..., KazooClient] = KazooClient,
        acls: NodeAcls = open_to_all,
    ) -> None:
        """`connected` runs on every connection before other requests. Its argument is True for reconnections."""
        self.connect = connect
        self._session_timeout = session_timeout  # as requested; the ensemble may grant less
        self._granted_timeout = session_timeout
        self._operation_timeout = operation_timeout
        self._connection_timeout = (
            connection_timeout  # for the first connection; reconnections are retried forever
        )
        self._connected = connected
        self._make_client = make_client
        self._acls = acls
        self._client: KazooClient | None = None
        self.loop: asyncio.AbstractEventLoop
        self._opening: asyncio.Future[None] | None = None
        self.is_closed = False
        self._session_id: int | None = None
        self.lease_until = 0.0
        self._last_sign = 0.0  # send time of the last sign of life confirmed by a majority
        self._renewing: asyncio.Task[None] | None = None
        self.on_session: list[Callable[[SessionState], None]] = []

    # Lifecycle

    async def open(self) -> None:
        if self.is_closed:
            raise StoreError(f"The connection to ZooKeeper at {self.connect} is closed.")
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        self.loop = asyncio.get_running_loop()
        client = self._make_client(
            self.connect,
            timeout=self._session_timeout,
            connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0},
            logger=_kazoo_logger,
        )
        client.add_listener(self._on_state)
        self._note_granted_timeout(client)
        started = client.start_async()
        began = time.monotonic()
        try:
            while (
                not started.is_set()
                or client.client_id is None  # the connection may be lost again at once
                or _may_enter(client) is not True
            ):
                if _may_enter(client) is False or time.monotonic() - began > self._connection_timeout:
                    raise StoreUnavailable(
                        f"ZooKeeper at {self.connect} cannot be reached{_because(client)}."
                    )
                await asyncio.sleep(0.005)
        except BaseException:
            await asyncio.to_thread(_stop, client)
            raise
        self._client = client
        self._session_id = client._session_id
        if client.chroot:
            # kazoo creates at most one node of the chroot while it is in force.
            chroot, client.chroot = client.chroot, ""
            try:
                await self.read(lambda _: client.ensure_path_async(chroot, self._acls(chroot)))
            finally:
                client.chroot = chroot
        self._lend_from(self._last_sign)
        self._renewing = asyncio.ensure_future(self._renew())
        self._connected(False)

    async def close(self) -> None:
        """End the session, which removes ephemeral nodes immediately."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._opening is not None:
            await asyncio.wait([self._opening])
        if self._renewing is not None:
            self._renewing.cancel()
        if self._client is not None:
            client, self._client = self._client, None
            client.remove_listener(self._on_state)
            await asyncio.to_thread(_stop, client)

    @property
    def is_open(self) -> bool:
        return self._client is not None

    @property
    def session_id(self) -> int:
        assert self._session_id is not None, "the store is not open"
        return self._session_id

    async def _renew(self) -> None:
        """Renew the lease with a write that changes nothing, counting from the previous renewal.

        A read proves little: even an isolated server answers it. A write is answered only after a majority has agreed.
        The ensemble's leader expires sessions and learns every half tick which ones are alive. When a renewal is
        answered, the leader therefore knows of the previous one.
        """
        pause = self._session_seconds / _RENEWALS
        while True:
            await asyncio.sleep(pause)
            session_id, before, sent = self._session_id, self._last_sign, time.monotonic()
            try:
                [answer] = await self.call(_write_nothing)
            except StoreError as error:
                answer = error
            if isinstance(answer, Exception):
                pause = min(_RENEW_AGAIN_SECONDS, self._session_seconds / _RENEWALS)
                continue
            pause = self._session_seconds / _RENEWALS
            if session_id == self._session_id:
                self._lend_from(before)
                self._last_sign = max(sent, self._last_sign)

    def _lend_from(self, sign: float) -> None:
        self.lease_until = sign + self._session_seconds * _TRUSTED

    @property
    def _session_seconds(self) -> float:
        return min(self._session_timeout, self._granted_timeout)

    def _note_granted_timeout(self, client: KazooClient) -> None:
        connection = client._connection
        invoke = connection._invoke

        def noted(timeout: float, request: Any, xid: int | None = None) -> Any:  # runs in a kazoo thread
            sent = time.monotonic()
            answer = invoke(timeout, request, xid)
            if isinstance(request, Connect) and answer[0].time_out > 0:
                self._granted_timeout = answer[0].time_out / 1000
                self._last_sign = sent
            return answer

        connection._invoke = noted

    def _on_state(self, state: str) -> None:
        """Runs in a kazoo thread."""
        self.from_thread(self._session_changed, state)

    def _session_changed(self, state: str) -> None:
        if self.is_closed or self._client is None or state == KazooState.LOST:
            return  # listeners learn of a lost session once a new one exists
        if state == KazooState.SUSPENDED:
            self._notify(SessionState.SUSPENDED)
            return
        identity = self._client.client_id
        if identity is None:
            return  # lost again in the meantime: the next connection reports it
        session_id = identity[0]
        expired, self._session_id = session_id != self._session_id, session_id
        if expired:
            logger.warning(
                "The session with ZooKeeper at %s has expired, and a new one has begun: this broker leads no "
                "partition until it has read the cluster's current state",
                self.connect,
            )
            self._lend_from(self._last_sign)
        self._notify(SessionState.EXPIRED if expired else SessionState.CONNECTED)
        self._connected(True)

    def _notify(self, state: SessionState) -> None:
        for listener in list(self.on_session):
            listener(state)

    # Requests

    def from_thread(self, function: Callable[..., None], *arguments: Any) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(function, *arguments)

    @property
    def kazoo(self) -> KazooClient:
        if self._client is None:
            raise StoreError(f"The connection to ZooKeeper at {self.connect} is closed.")
        return self._client

    async def call(self, ask: Callable[[KazooClient], Any], path: str = "/") -> Any:
        if self._client is None:
            await self.open()
        answered: asyncio.Future[None] = self.loop.create_future()
        result = ask(self.kazoo)
        result.rawlink(lambda _: self.from_thread(_finish, answered))
        await self._in_time(answered)
        if result.exception is not None:
            raise self.translated(result.exception, path)
        return result.value

    async def read(self, ask: Callable[[KazooClient], Any], path: str = "/") -> Any:
        check_path(path)
        return await self._retried(lambda: self.call(ask, path))

    async def read_many(
        self, ask: Callable[[KazooClient, str], Any], paths: Sequence[str]
    ) -> list[Any | None]:
        """Run a read for each of these nodes. Missing nodes yield None."""
        return await self._retried(lambda: self._read_many(ask, paths))

    async def _read_many(
        self, ask: Callable[[KazooClient, str], Any], paths: Sequence[str]
    ) -> list[Any | None]:
        """Send all requests before the first answer, and wake the event loop once."""
        await self.open()
        done: asyncio.Future[None] = self.loop.create_future()
        results: list[Any] = []
        left = len(paths)

        def answered(_: object) -> None:  # runs in kazoo's completion thread, sequentially
            nonlocal left
            left -= 1
            if not left:
                self.loop.call_soon_threadsafe(_finish, done)

        for path in paths:
            result = ask(self.kazoo, path)
            results.append(result)
            result.rawlink(answered)
        await self._in_time(done)
        found: list[Any | None] = []
        for path, result in zip(paths, results, strict=True):
            error = result.exception
            if isinstance(error, NoNodeError):
                found.append(None)
            elif error is not None:
                raise self.translated(error, path)
            else:
                found.append(result.value)
        return found

    async def _retried(self, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        deadline = time.monotonic() + self._operation_timeout
        backoff = _FIRST_BACKOFF
        while True:
            try:
                return await read()
            except StoreUnavailable:
                if time.monotonic() + backoff > deadline or self.is_closed:
                    raise
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, _LAST_BACKOFF)

    async def _in_time(self, answered: asyncio.Future[None]) -> None:
        try:
            async with asyncio.timeout(self._operation_timeout):
                await answered
        except TimeoutError:
            raise StoreUnavailable(f"ZooKeeper at {self.connect} does not answer.") from None

    def translated(self, error: Exception, path: str) -> StoreError:
        known = _ERRORS.get(type(error))
        if known is not None:
            return known(path)
        if isinstance(error, _LOST):
            return StoreUnavailable(f"The connection to ZooKeeper at {self.connect} was lost.")
        if isinstance(error, NoAuthError):
            return StoreError(
                f"ZooKeeper at {self.connect} does not let this broker use {path}: the node belongs to another user. "
                "Check who the broker logs in as, and the ACL of the node."
            )
        if isinstance(error, KazooException):
            return StoreError(f"ZooKeeper at {self.connect} refused: {type(error).__name__} {error}.")
        raise error


def _finish(answered: asyncio.Future[None]) -> None:
    if not answered.done():
        answered.set_result(None)


def _may_enter(client: KazooClient) -> bool | None:
    """Return the outcome of a client's login; None before it ends."""
    return getattr(client, "may_enter", True)


def _because(client: KazooClient) -> str:
    trouble = getattr(client, "trouble", None)
    return "" if trouble is None else f": {trouble}"


def _stop(client: KazooClient) -> None:
    client.stop()
    client.close()


def _write_nothing(client: KazooClient) -> Any:
    transaction = client.transaction()
    transaction.check("/", ANY_VERSION)
    return transaction.commit_async()
