"""Queries begin a few at a time.

A query starts processes of Python before its first micro-batch, and Spark gives each of them ten seconds to answer,
whatever the machine has to do. Twenty clients that come at once, or all queries of a server that comes back, would let
each other fail.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

_LONGEST = 60.0
_LOOK_EVERY = 0.1
_WAITING = "Waiting for data to arrive"
_TOO_SLOW = "Python worker failed to connect back"
_ATTEMPTS = 5


class Paces:
    def __init__(self, at_once: int | None = None) -> None:
        self._turns = threading.BoundedSemaphore(at_once or max(2, (os.cpu_count() or 2) // 2))

    def begin(
        self, start: Callable[[], StreamingQuery], interrupted: threading.Event | None = None
    ) -> StreamingQuery:
        """Returns after the first micro-batch, or when there is nothing to do for it. A query whose process of Python
        was too slow is started again.
        """
        with self._turns:
            for _ in range(_ATTEMPTS - 1):
                query = start()
                _until_begun(query, interrupted)
                failure = query.exception()
                if failure is None or _TOO_SLOW not in str(failure):
                    return query
            return start()


def _until_begun(query: StreamingQuery, interrupted: threading.Event | None) -> None:
    deadline = time.monotonic() + _LONGEST
    while query.isActive and time.monotonic() < deadline:
        if query.status["message"] == _WAITING or query.lastProgress is not None:
            return
        if interrupted is not None and interrupted.is_set():
            return
        time.sleep(_LOOK_EVERY)
