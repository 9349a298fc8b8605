"""Persistent watches on ZooKeeper nodes.

ZooKeeper's watches fire once and are lost with a connection. Each watch here is set again before its callbacks run, so
no change in between is missed.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kazoo.exceptions import NoNodeError

from ottla.metadata.stores.store import CancelWatch, Watcher
from ottla.metadata.stores.zookeeper_session import ZooKeeperSession

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
