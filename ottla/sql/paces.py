"""Limit on the number of queries that start at the same time.

A query starts Python processes before its first micro-batch, and Spark gives each of them ten seconds to respond.
Without a limit, twenty simultaneous clients or a restarting server would make their queries time out.
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
        """Start a query and wait for its first micro-batch, or until it has no data to process.

        A query whose Python process was too slow is started again.
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
