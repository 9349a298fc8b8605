"""Inspection of records in large batches, in a separate thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Inspections:
    """One thread for all clients; several would take the interpreter from the event loop more often.

    Owner: the event loop. The thread accesses only the bytes of a batch and the settings of its topic.
    """

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None

    def run(
        self,
        function: Callable[_Arguments, _Result],
        *arguments: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> Awaitable[_Result]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "inspect-records")
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._thread, lambda: function(*arguments, **named))

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None
