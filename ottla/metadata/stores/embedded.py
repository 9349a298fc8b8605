"""Metadata store of a standalone broker: a tree in memory, committed to one file."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from pathlib import Path
from typing import cast

from ottla.metadata.stores.node_file import NodeFile, Row
from ottla.metadata.stores.node_tree import Changes, Tree, TreeNode, View, apply_operation
from ottla.metadata.stores.store import (
    ANY_VERSION,
    CancelWatch,
    Create,
    Delete,
    Node,
    NodeError,
    NoNode,
    Operation,
    Result,
    SessionState,
    Set,
    Stat,
    StoreError,
    Watcher,
)

_Write = tuple[Sequence[Operation], "asyncio.Future[list[Result]]"]
_Attempted = list[tuple[list[Result] | NodeError, "asyncio.Future[list[Result]]"]]


class EmbeddedStore:
    """A NodeStore in one file.

    Invariant: the tree in memory contains committed data only, so a crash cannot revoke data that was read. Writes that
    arrive during a commit share the next one. Ephemeral nodes are never written. Owner: the event loop; the worker
    thread owns the file and sees only the nodes passed to it for a commit.
    """

    def __init__(self, path: str | PathLike[str], *, sync: bool = True) -> None:
        self._file = NodeFile(Path(path), sync=sync)
        self._tree = Tree()
        self._worker: ThreadPoolExecutor | None = None
        self._opening: asyncio.Future[None] | None = None
        self._closed = False
        self._next_zxid = 0
        self._waiting: list[_Write] = []
        self._committing = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._node_watchers: dict[str, dict[object, Watcher]] = {}
        self._child_watchers: dict[str, dict[object, Watcher]] = {}
        self.on_session: list[
            Callable[[SessionState], None]
        ] = []  # never called: no other process can end the session
        self.lease_until = math.inf

    # Lifecycle

    async def open(self) -> None:
        if self._closed:
            raise StoreError(f"The metadata store {self._file.path} is closed.")
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="ottla-metadata")
        try:
            rows, epoch = await asyncio.get_running_loop().run_in_executor(self._worker, self._file.open)
        except StoreError:
            self._worker.shutdown(wait=False)
            raise
        for path, data, version, czxid, next_sequence in rows:
            self._tree.load(path, TreeNode(data, version, czxid, next_sequence=next_sequence))
        # As in ZooKeeper, the upper half counts the opens: ids grow although not all of them are on disk.
        self._next_zxid = epoch << 32

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._opening is None or self._worker is None:
            return
        await asyncio.wait([self._opening])
        await self._idle.wait()
        if self._opening.exception() is None:
            await asyncio.get_running_loop().run_in_executor(self._worker, self._file.close)
            self._worker.shutdown(wait=False)

    async def _ready(self) -> Tree:
        if self._closed or self._opening is None or not self._opening.done() or self._opening.exception():
            await self.open()
        return self._tree

    # Reads

    async def sync(self) -> None:
        """Do nothing: every committed write is already visible."""

    async def get(self, path: str) -> Node:
        node = (await self._ready()).nodes.get(path)
        if node is None:
            raise NoNode(path)
        return Node(node.data, node.version)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        nodes = (await self._ready()).nodes
        found = [nodes.get(path) for path in paths]
        return [Node(node.data, node.version) if node is not None else None for node in found]

    async def exists(self, path: str) -> Stat | None:
        tree = await self._ready()
        node = tree.nodes.get(path)
        if node is None:
            return None
        return Stat(node.version, node.czxid, node.ephemeral, tree.child_count(path))

    async def children(self, path: str) -> list[str]:
        names = (await self._ready()).child_names.get(path)
        if names is None:
            raise NoNode(path)
        return sorted(names)

    # Writes

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        return cast(str, (await self.multi([Create(path, data, ephemeral, sequential)]))[0])

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        return cast(int, (await self.multi([Set(path, data, version)]))[0])

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        await self._ready()
        done: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()
        self._waiting.append((operations, done))
        if not self._committing:
            self._commit_waiting()
        return await done

    def _commit_waiting(self) -> None:
        """Apply all waiting writes to a view, in order, and commit its changes to the file at once."""
        writes, self._waiting = self._waiting, []
        batch = View(self._tree)
        results = [(self._attempt(batch, operations), done) for operations, done in writes]
        rows = [
            Row(path, node.data, node.version, node.czxid, node.next_sequence)
            for path, node in batch.changes.items()
            if node is not None and not node.ephemeral
        ]
        deleted = [
            path
            for path, node in batch.changes.items()
            if (node is None or node.ephemeral) and self._on_disk(path)
        ]
        if not rows and not deleted:
            self._finish(batch, results, None)
            return
        assert self._worker is not None
        self._committing = True
        self._idle.clear()
        commit = asyncio.get_running_loop().run_in_executor(self._worker, self._file.commit, rows, deleted)
        commit.add_done_callback(lambda committed: self._committed(batch, results, committed.exception()))

    def _on_disk(self, path: str) -> bool:
        node = self._tree.nodes.get(path)
        return node is not None and not node.ephemeral

    def _attempt(self, batch: View, operations: Sequence[Operation]) -> list[Result] | NodeError:
        attempt = View(batch)
        try:
            results = [apply_operation(attempt, operation, self._zxid) for operation in operations]
        except NodeError as error:
            return error
        batch.absorb(attempt)
        return results

    def _zxid(self) -> int:
        self._next_zxid += 1
        return self._next_zxid

    def _committed(self, batch: View, results: _Attempted, failure: BaseException | None) -> None:
        self._committing = False
        self._finish(batch, results, failure)
        if self._waiting:
            self._commit_waiting()
        if not self._committing:
            self._idle.set()

    def _finish(self, batch: View, results: _Attempted, failure: BaseException | None) -> None:
        if failure is None:
            self._notify(self._tree.apply(batch))
        for result, done in results:
            if done.cancelled():
                continue
            if isinstance(result, NodeError):
                done.set_exception(result)
            elif failure is not None:
                done.set_exception(failure)
            else:
                done.set_result(result)

    # Watches

    def watch(self, path: str, callback: Watcher, *, children: bool = False) -> CancelWatch:
        watchers = self._child_watchers if children else self._node_watchers
        token = object()  # the same callback may watch twice
        watchers.setdefault(path, {})[token] = callback

        def cancel() -> None:
            watching = watchers.get(path, {})
            watching.pop(token, None)
            if not watching:
                watchers.pop(path, None)

        return cancel

    def _notify(self, changes: Changes) -> None:
        loop = asyncio.get_running_loop()
        for watchers, paths in (
            (self._node_watchers, changes.nodes),
            (self._child_watchers, changes.children_of),
        ):
            for path in paths if watchers else ():
                for callback in watchers.get(path, {}).values():
                    # Call through the loop: an exception in one watcher affects neither the write nor other watchers.
                    loop.call_soon(callback, path)
