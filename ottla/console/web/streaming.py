"""Pass results from a thread to the event loop, and on as server-sent events."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

logger = logging.getLogger(__name__)

_WAITING = 64
EVENT_STREAM = "text/event-stream"


class Ended(Exception):
    """The consumer has stopped listening."""


class FromThread(Generic[T]):
    """Iterates over the items that `run` emits in its own thread. A full queue pauses the thread.

    `run` gets a function that takes an item, and raises Ended once the consumer has stopped; `on_stop` interrupts its
    waiting.
    """

    def __init__(
        self, run: Callable[[Callable[[T], None]], None], on_stop: Callable[[], None] = lambda: None
    ) -> None:
        self._run = run
        self._on_stop = on_stop
        self._room = threading.Semaphore(_WAITING)
        self._stopped = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[T | None] = asyncio.Queue()
        self._failure: Exception | None = None

    @property
    def stopped(self) -> threading.Event:
        return self._stopped

    async def __aiter__(self) -> AsyncIterator[T]:
        threading.Thread(target=self._work, name="console-stream", daemon=True).start()
        try:
            while (item := await self._items.get()) is not None:
                self._room.release()
                yield item
            if self._failure is not None:
                raise self._failure
        finally:
            self.stop()

    def stop(self) -> None:
        if not self._stopped.is_set():
            self._stopped.set()
            self._room.release()
            self._on_stop()

    def _emit(self, item: T) -> None:
        self._room.acquire()
        if self._stopped.is_set():
            raise Ended
        self._put(item)

    def _put(self, item: T | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)
        except RuntimeError:  # the console has stopped
            raise Ended from None

    def _work(self) -> None:
        try:
            self._run(self._emit)
        except Ended:
            return
        except Exception as error:
            self._failure = error
        try:
            self._put(None)
        except Ended:
            return


def event(name: str, data: str) -> bytes:
    """Encode one server-sent event, line by line."""
    lines = data.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return (f"event: {name}\n" + "".join(f"data: {line}\n" for line in lines) + "\n").encode(
        "utf-8", "replace"
    )


#: Keeps proxies from closing an idle stream.
KEEP_ALIVE = b": still here\n\n"
