"""Run blocking functions of `ottla.client` in threads, with persistent connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, ParamSpec, TypeVar

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, Unreachable
from ottla.client.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 12
_KEPT = 6


class Calls:
    """Invariant: no two threads share a Cluster. Owner: the event loop."""

    def __init__(self, settings: Settings, make: Callable[[Settings], Cluster] = Cluster) -> None:
        self._settings = settings
        self._make = make
        self._threads = ThreadPoolExecutor(_THREADS, "console")
        self._idle: list[Cluster] = []
        self._closed = False

    async def read(
        self, function: Callable[Concatenate[Cluster, P], T], *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Run a function, retrying after a dead connection. Raises ClientError."""

        def call() -> T:
            while True:
                cluster, is_fresh = self._take()
                try:
                    result = function(cluster, *arguments, **options)
                except Unreachable:
                    cluster.close()
                    if is_fresh:
                        raise
                    continue
                except ClientError:
                    self._give_back(cluster)
                    raise
                except BaseException:
                    cluster.close()  # unread responses may still be in flight
                    raise
                self._give_back(cluster)
                return result

        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def change(
        self, function: Callable[Concatenate[Cluster, P], T], *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Run a function once, on a connection that has just answered. Raises ClientError."""

        def alive(cluster: Cluster) -> Callable[[], T]:
            cluster.metadata(())
            return lambda: function(cluster, *arguments, **options)

        def call() -> T:
            while True:
                cluster, is_fresh = self._take()
                try:
                    act = alive(cluster)
                except Unreachable:
                    cluster.close()
                    if is_fresh:
                        raise
                    continue
                try:
                    result = act()
                except BaseException:
                    cluster.close()
                    raise
                self._give_back(cluster)
                return result

        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def run(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run any other blocking function."""
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: function(*arguments, **options)
        )

    def borrow(self) -> Cluster:
        """Return a cluster for a long-lived thread, which has to close it."""
        return self._make(self._settings)

    def close(self) -> None:
        """Close idle connections. Running calls finish and close theirs."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        while self._idle:
            self._idle.pop().close()

    # List operations are atomic, so threads need no lock.

    def _take(self) -> tuple[Cluster, bool]:
        try:
            return self._idle.pop(), False
        except IndexError:
            return self._make(self._settings), True

    def _give_back(self, cluster: Cluster) -> None:
        if len(self._idle) < _KEPT and not self._closed:
            self._idle.append(cluster)
        else:
            cluster.close()
