"""Queries begin a few at a time.

A query starts processes of Python before its first micro-batch, and Spark gives each of them ten seconds to answer,
whatever the machine has to do. Twenty clients that come at once, or all queries of a server that comes back, would let
each other fail.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

_LONGEST = 60.0
_LOOK_EVERY = 0.1
_WAITING = "Waiting for data to arrive"


class Paces:
    def __init__(self, at_once: int | None = None) -> None:
        self._turns = threading.BoundedSemaphore(at_once or max(2, (os.cpu_count() or 2) // 2))

    @contextmanager
    def turn(self, interrupted: threading.Event | None = None) -> Iterator[Callable[[StreamingQuery], None]]:
        """Start the query inside, and call what this gives: it returns after the first micro-batch."""
        with self._turns:
            yield lambda query: _until_begun(query, interrupted)


@contextmanager
def no_turns() -> Iterator[Callable[[StreamingQuery], None]]:
    """For those who start one query after the other anyway."""
    yield lambda query: None


def _until_begun(query: StreamingQuery, interrupted: threading.Event | None) -> None:
    deadline = time.monotonic() + _LONGEST
    while query.isActive and time.monotonic() < deadline:
        if query.status["message"] == _WAITING or query.lastProgress is not None:
            return
        if interrupted is not None and interrupted.is_set():
            return
        time.sleep(_LOOK_EVERY)
