"""The metadata store of a cluster: ZooKeeper, through kazoo.

kazoo does its work in threads of its own; everything here runs on the event loop, and the threads only hand over what
has come. Watches of ZooKeeper fire once and are lost with a connection: here they are set again before anybody is told,
so that nothing that happens meanwhile is missed.
"""

from __future__ import annotations

import asyncio
import enum
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
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import Connect

from ottla.metadata.store import (
    ANY_VERSION,
    BadVersion,
    CancelWatch,
    Create,
    Delete,
    EphemeralParent,
    Node,
    NodeError,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Result,
    Set,
    Stat,
    StoreError,
    Watcher,
    check_path,
    parent_of,
)

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

# The share of a session's time after which nobody relies on it any more: the ensemble may count from a little earlier.
_TRUSTED = 2 / 3
# The lease is renewed so often while a session lasts.
_RENEWALS = 6
_ARMED_AT_ONCE = 100
_FIRST_BACKOFF = 0.05
_LAST_BACKOFF = 1.0


class SessionState(enum.Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"  # the ensemble cannot be reached; the session may still be there
    EXPIRED = "expired"  # ephemeral nodes are gone, and a new session has begun


class StoreUnavailable(StoreError):
    """The ensemble did not answer: nobody knows whether a write was carried out."""


class ZooKeeperStore:
    """A NodeStore in ZooKeeper. Owner: the event loop.

    Reads are tried again until `operation_timeout` while the ensemble is out of reach. A write that was under way when
    a connection broke is StoreUnavailable, because it may or may not have been carried out.
    """

    def __init__(
        self, connect: str, *, session_timeout: float = 18.0, operation_timeout: float | None = None
    ) -> None:
        self._connect = connect
        self._session_timeout = session_timeout  # as asked for; the ensemble may grant less
        self._granted_timeout = session_timeout
        self._operation_timeout = session_timeout if operation_timeout is None else operation_timeout
        self._client: KazooClient | None = None
        self._loop: asyncio.AbstractEventLoop
        self._opening: asyncio.Future[None] | None = None
        self._closed = False
        self._session_id: int | None = None
        self._lease_until = 0.0
        self._watches: dict[tuple[str, bool], _Watch] = {}
        self._renewing: asyncio.Task[None] | None = None
        self.on_session: list[Callable[[SessionState], None]] = []

    # Life

    async def open(self) -> None:
        if self._closed:
            raise StoreError(f"The connection to ZooKeeper at {self._connect} is closed.")
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        self._loop = asyncio.get_running_loop()
        client = KazooClient(
            self._connect,
            timeout=self._session_timeout,
            connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0},
            logger=logging.getLogger("kazoo"),
        )
        client.add_listener(self._on_state)
        self._note_granted_timeout(client)
        started = client.start_async()
        began = time.monotonic()
        try:
            while not started.is_set() or client.client_id is None:  # it may be lost again at once
                if time.monotonic() - began > self._operation_timeout:
                    raise StoreUnavailable(f"ZooKeeper at {self._connect} cannot be reached.")
                await asyncio.sleep(0.005)
        except BaseException:
            await asyncio.to_thread(_stop, client)
            raise
        self._client = client
        self._session_id = client._session_id
        if client.chroot:
            # kazoo makes no more than one node of it while it is in force.
            chroot, client.chroot = client.chroot, ""
            try:
                await self._read(lambda _: client.ensure_path_async(chroot))
            finally:
                client.chroot = chroot
        self._lease_until = began + self._session_seconds * _TRUSTED
        self._renewing = asyncio.ensure_future(self._renew())
        for watch in list(self._watches.values()):
            self._arm(watch, tell=False)

    async def close(self) -> None:
        """End the session: ephemeral nodes go at once."""
        if self._closed:
            return
        self._closed = True
        if self._opening is not None:
            await asyncio.wait([self._opening])
        if self._renewing is not None:
            self._renewing.cancel()
        if self._client is not None:
            client, self._client = self._client, None
            client.remove_listener(self._on_state)
            await asyncio.to_thread(_stop, client)

    @property
    def session_id(self) -> int:
        """Who owns the ephemeral nodes that were made here."""
        assert self._session_id is not None, "the store is not open"
        return self._session_id

    @property
    def lease_until(self) -> float:
        """Until this moment of the monotonic clock the session cannot have been given away."""
        return self._lease_until

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._session_seconds / _RENEWALS)
            sent = time.monotonic()
            try:
                await self._call(lambda client: client.exists_async("/"))
            except StoreError:
                continue
            self._lease_until = sent + self._session_seconds * _TRUSTED

    @property
    def _session_seconds(self) -> float:
        return min(self._session_timeout, self._granted_timeout)

    def _note_granted_timeout(self, client: KazooClient) -> None:
        """kazoo keeps to itself what the ensemble has granted: it is in the answer to the request that connects."""
        connection = client._connection
        invoke = connection._invoke

        def noted(timeout: float, request: Any, xid: int | None = None) -> Any:  # in a thread of kazoo's
            answer = invoke(timeout, request, xid)
            if isinstance(request, Connect) and answer[0].time_out > 0:
                self._granted_timeout = answer[0].time_out / 1000
            return answer

        connection._invoke = noted

    def _on_state(self, state: str) -> None:
        """In a thread of kazoo's."""
        self._from_thread(self._session_changed, state)

    def _session_changed(self, state: str) -> None:
        if self._closed or self._client is None or state == KazooState.LOST:
            return  # a lost session is told when there is a new one to go on with
        if state == KazooState.SUSPENDED:
            self._tell(SessionState.SUSPENDED)
            return
        identity = self._client.client_id
        if identity is None:
            return  # lost again meanwhile: the next connection tells
        began, session_id = time.monotonic(), identity[0]
        expired, self._session_id = session_id != self._session_id, session_id
        if expired:
            logger.warning("The session with ZooKeeper at %s expired; a new one has begun", self._connect)
            self._lease_until = began + self._session_seconds * _TRUSTED
        self._tell(SessionState.EXPIRED if expired else SessionState.CONNECTED)
        self._arm_again(list(self._watches.values()))

    def _arm_again(self, watches: list[_Watch]) -> None:
        """Some at a time: a controller has one for every topic. Each tells when it is set, so nothing is missed."""
        if self._closed or self._client is None:
            return
        for watch in watches[:_ARMED_AT_ONCE]:
            self._arm(watch, tell=True)
        if len(watches) > _ARMED_AT_ONCE:
            self._loop.call_soon(self._arm_again, watches[_ARMED_AT_ONCE:])

    def _tell(self, state: SessionState) -> None:
        for listener in list(self.on_session):
            listener(state)

    # Reads

    async def get(self, path: str) -> Node:
        data, stat = await self._read(lambda client: client.get_async(path), path)
        return Node(data, stat.version)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        if not paths:
            return []
        return await self._retried(lambda: self._get_many(paths))

    async def _get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """All requests are sent before the first answer, and the loop is woken once."""
        await self.open()
        done: asyncio.Future[None] = self._loop.create_future()
        results: list[Any] = []
        left = len(paths)

        def answered(_: object) -> None:  # in kazoo's thread of completions, one after another
            nonlocal left
            left -= 1
            if not left:
                self._loop.call_soon_threadsafe(_finish, done)

        for path in paths:
            result = self._kazoo.get_async(path)
            results.append(result)
            result.rawlink(answered)
        await self._in_time(done)
        found: list[Node | None] = []
        for path, result in zip(paths, results, strict=True):
            error = result.exception
            if isinstance(error, NoNodeError):
                found.append(None)
            elif error is not None:
                raise _translated(error, path, self._connect)
            else:
                data, stat = result.value
                found.append(Node(data, stat.version))
        return found

    async def exists(self, path: str) -> Stat | None:
        stat = await self._read(lambda client: client.exists_async(path), path)
        if stat is None:
            return None
        return Stat(stat.version, stat.czxid, bool(stat.ephemeralOwner), stat.numChildren)

    async def owner(self, path: str) -> int | None:
        """The session that an ephemeral node lives with; None without such a node."""
        stat = await self._read(lambda client: client.exists_async(path), path)
        return stat.ephemeralOwner if stat is not None and stat.ephemeralOwner else None

    async def children(self, path: str) -> list[str]:
        return sorted(await self._read(lambda client: client.get_children_async(path), path))

    async def sync(self) -> None:
        """Let the server that is read from catch up with all that was written before, wherever it was."""
        await self._read(lambda client: client.sync_async("/"))

    # Writes

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        check_path(path)
        created: str = await self._call(
            lambda client: client.create_async(path, data, ephemeral=ephemeral, sequence=sequential), path
        )
        return created

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        stat = await self._call(lambda client: client.set_async(path, data, version), path)
        changed: int = stat.version
        return changed

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._call(lambda client: client.delete_async(path, version), path)

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        if not operations:
            return []
        for operation in operations:
            check_path(operation.path)

        def commit(client: KazooClient) -> Any:
            transaction = client.transaction()
            for operation in operations:
                _add(transaction, operation)
            return transaction.commit_async()

        results = await self._call(commit)
        for operation, result in zip(operations, results, strict=True):
            if isinstance(result, Exception) and not isinstance(
                result, RolledBackError | RuntimeInconsistency
            ):
                raise _translated(result, _blamed(operation, result), self._connect)
        if any(isinstance(result, Exception) for result in results):
            raise StoreError(f"ZooKeeper at {self._connect} refused a transaction: {results!r}.")
        return [_result(each, result) for each, result in zip(operations, results, strict=True)]

    # Watches

    def watch(self, path: str, callback: Watcher, *, children: bool = False) -> CancelWatch:
        check_path(path)
        key = (path, children)
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = _Watch(path, children)
            if self._client is not None:
                self._arm(watch, tell=False)
        token = object()
        watch.callbacks[token] = callback

        def cancel() -> None:
            watch.callbacks.pop(token, None)
            if not watch.callbacks:
                self._watches.pop(key, None)

        return cancel

    def _arm(self, watch: _Watch, *, tell: bool, until_it_comes: bool = False) -> None:
        """Set the watch; once it is set, tell that something has happened before.

        The request is on its way when this returns, before anything that is asked for next. Children of a node that is
        not there are waited for by watching the node.
        """
        watch.generation += 1
        generation = watch.generation

        def fired(event: Any) -> None:  # in kazoo's thread of callbacks
            if event.type != "NONE":  # of a lost connection: with the next one it is set again
                self._from_thread(self._fired, watch, generation)

        of_children = watch.children and not until_it_comes
        ask = self._kazoo.get_children_async if of_children else self._kazoo.exists_async
        result = ask(watch.path, watch=fired)
        result.rawlink(
            lambda _: self._from_thread(self._armed, watch, generation, tell, until_it_comes, result)
        )

    def _armed(self, watch: _Watch, generation: int, tell: bool, until_it_comes: bool, result: Any) -> None:
        if self._closed or watch.generation != generation:
            return
        if isinstance(result.exception, NoNodeError):
            self._arm(watch, tell=tell, until_it_comes=True)
        elif result.exception is not None:
            return
        elif until_it_comes and result.value is not None:
            self._arm(watch, tell=True)  # it came in between
        elif tell:
            watch.tell(self._loop)

    def _fired(self, watch: _Watch, generation: int) -> None:
        if not self._closed and watch.generation == generation and watch.callbacks:
            self._arm(watch, tell=True)

    # Asking

    def _from_thread(self, function: Callable[..., None], *arguments: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    @property
    def _kazoo(self) -> KazooClient:
        if self._client is None:
            raise StoreError(f"The connection to ZooKeeper at {self._connect} is closed.")
        return self._client

    async def _call(self, ask: Callable[[KazooClient], Any], path: str = "/") -> Any:
        """Send one request and wait for its answer."""
        if self._client is None:
            await self.open()
        answered: asyncio.Future[None] = self._loop.create_future()
        result = ask(self._kazoo)
        result.rawlink(lambda _: self._from_thread(_finish, answered))
        await self._in_time(answered)
        if result.exception is not None:
            raise _translated(result.exception, path, self._connect)
        return result.value

    async def _read(self, ask: Callable[[KazooClient], Any], path: str = "/") -> Any:
        check_path(path)
        return await self._retried(lambda: self._call(ask, path))

    async def _retried(self, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        deadline = time.monotonic() + self._operation_timeout
        backoff = _FIRST_BACKOFF
        while True:
            try:
                return await read()
            except StoreUnavailable:
                if time.monotonic() + backoff > deadline or self._closed:
                    raise
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, _LAST_BACKOFF)

    async def _in_time(self, answered: asyncio.Future[None]) -> None:
        try:
            async with asyncio.timeout(self._operation_timeout):
                await answered
        except TimeoutError:
            raise StoreUnavailable(f"ZooKeeper at {self._connect} does not answer.") from None


class _Watch:
    """Those who wait for one node, or for its children. `generation` tells an old setting from the one that counts."""

    __slots__ = ("callbacks", "children", "generation", "path")

    def __init__(self, path: str, children: bool) -> None:
        self.path = path
        self.children = children
        self.generation = 0
        self.callbacks: dict[object, Watcher] = {}

    def tell(self, loop: asyncio.AbstractEventLoop) -> None:
        for callback in list(self.callbacks.values()):
            loop.call_soon(callback, self.path)


def _finish(answered: asyncio.Future[None]) -> None:
    if not answered.done():
        answered.set_result(None)


def _stop(client: KazooClient) -> None:
    client.stop()
    client.close()


def _translated(error: Exception, path: str, connect: str) -> StoreError:
    known = _ERRORS.get(type(error))
    if known is not None:
        return known(path)
    if isinstance(error, _LOST):
        return StoreUnavailable(f"The connection to ZooKeeper at {connect} was lost.")
    if isinstance(error, KazooException):
        return StoreError(f"ZooKeeper at {connect} refused: {type(error).__name__} {error}.")
    raise error


def _add(transaction: Any, operation: Operation) -> None:
    if isinstance(operation, Create):
        transaction.create(
            operation.path, operation.data, ephemeral=operation.ephemeral, sequence=operation.sequential
        )
    elif isinstance(operation, Set):
        transaction.set_data(operation.path, operation.data, operation.version)
    elif isinstance(operation, Delete):
        transaction.delete(operation.path, operation.version)
    else:
        transaction.check(operation.path, operation.version)


def _blamed(operation: Operation, error: Exception) -> str:
    """The node that stands in the way: of a new node that has no parent, the parent."""
    if isinstance(operation, Create) and isinstance(error, NoNodeError | NoChildrenForEphemeralsError):
        return parent_of(operation.path)
    return operation.path


def _result(operation: Operation, result: Any) -> Result:
    if isinstance(operation, Create):
        return str(result)
    if isinstance(operation, Set):
        version: int = result.version
        return version
    return None
