"""Watches that last. ZooKeeper's fire once and are lost with a connection: here they are set again before anybody is
told, so that nothing that happens meanwhile is missed.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kazoo.exceptions import NoNodeError

from ottla.metadata.stores.store import CancelWatch, Watcher
from ottla.metadata.stores.zookeeper_session import ZooKeeperSession

_SET_AT_ONCE = 100


class ZooKeeperWatches:
    """Who is to be told of which nodes. Owner: the event loop."""

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
                watch.arm(tell=False)
        token = object()
        watch.callbacks[token] = callback

        def cancel() -> None:
            watch.callbacks.pop(token, None)
            if not watch.callbacks:
                self._watches.pop(key, None)

        return cancel

    def set_again(self, tell: bool) -> None:
        """There is a connection, and it has none of them; if it is not the first, something may have been missed."""
        _set_some(list(self._watches.values()), tell)


def _set_some(watches: list[_Watch], tell: bool) -> None:
    """A controller has one for every topic. Each tells when it is set, so nothing is missed meanwhile."""
    for watch in watches[:_SET_AT_ONCE]:
        if watch.session.is_open:
            watch.arm(tell=tell)
    if len(watches) > _SET_AT_ONCE:
        watches[0].session.loop.call_soon(_set_some, watches[_SET_AT_ONCE:], tell)


class _Watch:
    """Those who wait for one node, or for its children. `generation` tells an old setting from the one that counts."""

    __slots__ = ("_children", "_generation", "_path", "callbacks", "session")

    def __init__(self, session: ZooKeeperSession, path: str, children: bool) -> None:
        self.session = session
        self._path = path
        self._children = children
        self._generation = 0
        self.callbacks: dict[object, Watcher] = {}

    def arm(self, *, tell: bool, until_it_comes: bool = False) -> None:
        """Set the watch; once it is set, tell that something has happened before.

        The request is on its way when this returns, before anything that is asked for next. Children of a node that is
        not there are waited for by watching the node.
        """
        self._generation += 1
        generation, session = self._generation, self.session

        def fired(event: Any) -> None:  # in kazoo's thread of callbacks
            if event.type != "NONE":  # of a lost connection: with the next one it is set again
                session.from_thread(self._fired, generation)

        of_children = self._children and not until_it_comes
        ask = session.kazoo.get_children_async if of_children else session.kazoo.exists_async
        result = ask(self._path, watch=fired)
        result.rawlink(lambda _: session.from_thread(self._armed, generation, tell, until_it_comes, result))

    def _armed(self, generation: int, tell: bool, until_it_comes: bool, result: Any) -> None:
        if self.session.is_closed or self._generation != generation:
            return
        if isinstance(result.exception, NoNodeError):
            self.arm(tell=tell, until_it_comes=True)
        elif result.exception is not None:
            return
        elif until_it_comes and result.value is not None:
            self.arm(tell=True)  # it came in between
        elif tell:
            self._tell(self.session.loop)

    def _fired(self, generation: int) -> None:
        if not self.session.is_closed and self._generation == generation and self.callbacks:
            self.arm(tell=True)

    def _tell(self, loop: asyncio.AbstractEventLoop) -> None:
        for callback in list(self.callbacks.values()):
            loop.call_soon(callback, self._path)
