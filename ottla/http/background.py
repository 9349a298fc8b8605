"""A server in a thread with its own event loop, for programs that do other work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

import uvloop


class Serving(Protocol):
    @property
    def urls(self) -> list[str]: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class InBackground:
    """Runs a server. Calls `make` on the thread's event loop."""

    def __init__(self, make: Callable[[], Serving], name: str) -> None:
        self._make = make
        self._name = name
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self.urls: list[str] = []

    def start(self) -> Self:
        """Return once the server answers. Raises its startup error."""
        self._ready.clear()
        self._failure = None
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            self._thread = None
            raise self._failure
        return self

    def stop(self) -> None:
        if self._thread is None or self._loop is None or self._stopping is None:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return self.urls[0]

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            server = self._make()
            await server.start()
        except BaseException as error:
            self._failure = error
            self._ready.set()
            return
        self.urls = server.urls
        self._ready.set()
        await self._stopping.wait()
        await server.stop()
