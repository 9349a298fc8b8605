"""The metadata store in ZooKeeper, and its watches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoChildrenForEphemeralsError, NoNodeError, RolledBackError, RuntimeInconsistency

from ottla.metadata.stores.store import (
    ANY_VERSION,
    CancelWatch,
    Create,
    Delete,
    Node,
    Operation,
    Result,
    SessionState,
    Set,
    Stat,
    StoreError,
    Watcher,
    check_path,
    parent_of,
)
from ottla.metadata.stores.zookeeper_session import StoreUnavailable, ZooKeeperSession
from ottla.zookeeper import NodeAcls, open_to_all, owned_by_creator

# Persistent watches on ZooKeeper nodes.
#
# ZooKeeper's watches fire once and are lost with a connection. Each watch here is set again before its
# callbacks run, so no change in between is missed.

_SET_AT_ONCE = 100


class ZooKeeperWatches:
    """Callbacks of each watched node. Owner: the event loop."""

    def __init__(self) -> None:
        self._watches: dict[tuple[str, bool], _Watch] = {}

    def add(
        self, session: ZooKeeperSession, path: str, callback: Watcher, *, children: bool = False
    ) -> CancelWatch:
        key = (path, children)
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = _Watch(session, path, children)
            if session.is_open:
                watch.arm(notify=False)
        token = object()
        watch.callbacks[token] = callback

        def cancel() -> None:
            watch.callbacks.pop(token, None)
            if not watch.callbacks:
                self._watches.pop(key, None)

        return cancel

    def set_again(self, notify: bool) -> None:
        """Set all watches on a new connection. `notify` calls back, because changes may have been missed."""
        _set_some(list(self._watches.values()), notify)


def _set_some(watches: list[_Watch], notify: bool) -> None:
    """Set a few at a time: a controller has one watch per topic. Each calls back once set, so nothing is missed."""
    for watch in watches[:_SET_AT_ONCE]:
        if watch.session.is_open:
            watch.arm(notify=notify)
    if len(watches) > _SET_AT_ONCE:
        watches[0].session.loop.call_soon(_set_some, watches[_SET_AT_ONCE:], notify)


class _Watch:
    """Callbacks of one node or its children. Events from an older `generation` are ignored."""

    __slots__ = ("_children", "_generation", "_path", "callbacks", "session")

    def __init__(self, session: ZooKeeperSession, path: str, children: bool) -> None:
        self.session = session
        self._path = path
        self._children = children
        self._generation = 0
        self.callbacks: dict[object, Watcher] = {}

    def arm(self, *, notify: bool, until_it_comes: bool = False) -> None:
        """Set the watch. With `notify`, call back once it is set, because of possible earlier changes.

        The request is sent before this returns, so it precedes any later request. For children of a missing node, watch
        the node itself.
        """
        self._generation += 1
        generation, session = self._generation, self.session

        def fired(event: Any) -> None:  # runs in kazoo's callback thread
            if event.type != "NONE":  # NONE reports a lost connection: the next one sets the watch again
                session.from_thread(self._fired, generation)

        of_children = self._children and not until_it_comes
        ask = session.kazoo.get_children_async if of_children else session.kazoo.exists_async
        result = ask(self._path, watch=fired)
        result.rawlink(lambda _: session.from_thread(self._armed, generation, notify, until_it_comes, result))

    def _armed(self, generation: int, notify: bool, until_it_comes: bool, result: Any) -> None:
        if self.session.is_closed or self._generation != generation:
            return
        if isinstance(result.exception, NoNodeError):
            self.arm(notify=notify, until_it_comes=True)
        elif result.exception is not None:
            return
        elif until_it_comes and result.value is not None:
            self.arm(notify=True)  # the node appeared in between
        elif notify:
            self._notify(self.session.loop)

    def _fired(self, generation: int) -> None:
        if not self.session.is_closed and self._generation == generation and self.callbacks:
            self.arm(notify=True)

    def _notify(self, loop: asyncio.AbstractEventLoop) -> None:
        for callback in list(self.callbacks.values()):
            loop.call_soon(callback, self._path)


# Metadata store of a cluster: ZooKeeper nodes, accessed in a session, with persistent watches.

__all__ = ["SessionState", "StoreUnavailable", "ZooKeeperStore"]


class ZooKeeperStore:
    """A NodeStore in ZooKeeper. Owner: the event loop.

    Reads are retried until `operation_timeout` while the ensemble is unreachable. A write interrupted by a lost
    connection raises StoreUnavailable, because its outcome is unknown.
    """

    def __init__(
        self,
        connect: str,
        *,
        session_timeout: float = 18.0,
        operation_timeout: float | None = None,
        connection_timeout: float | None = None,
        make_client: Callable[..., KazooClient] = KazooClient,
        set_acl: bool = False,
    ) -> None:
        """Timeouts for the first connection and for answers default to the session timeout.

        `make_client` creates the kazoo client, with TLS and login if required. With `set_acl` nodes belong to the
        logged-in user, as with Kafka's zookeeper.set.acl.
        """
        operation_timeout = session_timeout if operation_timeout is None else operation_timeout
        self._connect = connect
        self._acls = owned_by_creator if set_acl else open_to_all
        self._watches = ZooKeeperWatches()
        self._session = ZooKeeperSession(
            connect,
            session_timeout,
            operation_timeout,
            operation_timeout if connection_timeout is None else connection_timeout,
            self._watches.set_again,
            make_client,
            self._acls,
        )

    # Lifecycle

    async def open(self) -> None:
        await self._session.open()

    async def close(self) -> None:
        """End the session, which removes ephemeral nodes immediately."""
        await self._session.close()

    @property
    def on_session(self) -> list[Callable[[SessionState], None]]:
        return self._session.on_session

    @property
    def session_id(self) -> int:
        """Owner id of the ephemeral nodes created here."""
        return self._session.session_id

    @property
    def lease_until(self) -> float:
        """Monotonic time until which the session certainly exists."""
        return self._session.lease_until

    # Reads

    async def get(self, path: str) -> Node:
        data, stat = await self._session.read(lambda client: client.get_async(path), path)
        return Node(data, stat.version)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        if not paths:
            return []
        found = await self._session.read_many(lambda client, path: client.get_async(path), paths)
        return [None if each is None else Node(each[0], each[1].version) for each in found]

    async def exists(self, path: str) -> Stat | None:
        stat = await self._session.read(lambda client: client.exists_async(path), path)
        if stat is None:
            return None
        return Stat(stat.version, stat.czxid, bool(stat.ephemeralOwner), stat.numChildren)

    async def owner(self, path: str) -> int | None:
        """Return the session of an ephemeral node, or None if there is no such node."""
        stat = await self._session.read(lambda client: client.exists_async(path), path)
        return stat.ephemeralOwner if stat is not None and stat.ephemeralOwner else None

    async def children(self, path: str) -> list[str]:
        return sorted(await self._session.read(lambda client: client.get_children_async(path), path))

    async def sync(self) -> None:
        """Let the connected server catch up with all earlier writes on any server."""
        await self._session.read(lambda client: client.sync_async("/"))

    # Writes

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        check_path(path)
        created: str = await self._session.call(
            lambda client: client.create_async(
                path, data, self._acls(path), ephemeral=ephemeral, sequence=sequential
            ),
            path,
        )
        return created

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        stat = await self._session.call(lambda client: client.set_async(path, data, version), path)
        changed: int = stat.version
        return changed

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._session.call(lambda client: client.delete_async(path, version), path)

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        if not operations:
            return []
        for operation in operations:
            check_path(operation.path)

        def commit(client: KazooClient) -> Any:
            transaction = client.transaction()
            for operation in operations:
                _add(transaction, operation, self._acls)
            return transaction.commit_async()

        results = await self._session.call(commit)
        for operation, result in zip(operations, results, strict=True):
            if isinstance(result, Exception) and not isinstance(
                result, RolledBackError | RuntimeInconsistency
            ):
                raise self._session.translated(result, _blamed(operation, result))
        if any(isinstance(result, Exception) for result in results):
            raise StoreError(f"ZooKeeper at {self._connect} refused a transaction: {results!r}.")
        return [_result(each, result) for each, result in zip(operations, results, strict=True)]

    # Watches

    def watch(self, path: str, callback: Watcher, *, children: bool = False) -> CancelWatch:
        check_path(path)
        return self._watches.add(self._session, path, callback, children=children)


def _add(transaction: Any, operation: Operation, acls: NodeAcls) -> None:
    if isinstance(operation, Create):
        path, data, ephemeral, sequential = operation
        transaction.create(path, data, acls(path), ephemeral=ephemeral, sequence=sequential)
    elif isinstance(operation, Set):
        transaction.set_data(operation.path, operation.data, operation.version)
    elif isinstance(operation, Delete):
        transaction.delete(operation.path, operation.version)
    else:
        transaction.check(operation.path, operation.version)


def _blamed(operation: Operation, error: Exception) -> str:
    """Return the path at fault: the parent, for a new node without one."""
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
