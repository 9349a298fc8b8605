"""Push queries: each has a thread that waits for rows and ends when its client disconnects.

Invariant: at most `_BUFFERED` rows wait for a client; then the thread blocks. The thread that started a Spark query
also stops it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections.abc import AsyncIterator
from typing import Any

from ottla.http import HttpError
from ottla.sql.errors import SqlError
from ottla.sql.executing.results import Result
from ottla.sql.parsing import statements as s
from ottla.sql.server.ksql_errors import SERVER_ERROR
from ottla.sql.session import Conversation

logger = logging.getLogger("ottla.sql")

Row = tuple[Any, ...]
_BUFFERED = 1000


class PushQuery:
    def __init__(self, query_id: str, result: Result, session: Conversation, owner: PushQueries) -> None:
        self.query_id = query_id
        self.result = result
        self._session = session
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._rows: list[Row] = []
        self._changed = threading.Condition()
        self._ended = False
        self._interrupted = False
        self._failure: Exception | None = None
        self._arrived: asyncio.Event = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=query_id, daemon=True)

    def start(self) -> None:
        self._thread.start()

    # -- the thread --

    def _run(self) -> None:
        rows = self.result.rows
        try:
            for row in rows:
                if not self._put(row):
                    break
        except SqlError as error:
            self._failure = error
        except Exception as error:  # Spark is shutting down
            if not self._interrupted:
                logger.error("The query %s has failed: %s: %s", self.query_id, type(error).__name__, error)
                self._failure = error
        finally:
            close = getattr(rows, "close", None)
            if close is not None:
                close()
            with self._changed:
                self._ended = True
            self._wake()
            self._owner.forget(self)

    def _put(self, row: Row) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: len(self._rows) < _BUFFERED or self._interrupted)
            if self._interrupted:
                return False
            self._rows.append(row)
            first = len(self._rows) == 1
        if first:
            self._wake()
        return True

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._arrived.set)
        except RuntimeError:
            return  # the loop has ended, so the client is gone

    # -- the client --

    async def batches(self) -> AsyncIterator[list[Row]]:
        """Yield rows as they arrive. Raises HttpError if the query fails."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            with self._changed:
                rows, self._rows = self._rows, []
                ended = self._ended
                self._changed.notify_all()
            if rows:
                yield rows
            if ended:
                if self._failure is not None:
                    raise HttpError(500, SERVER_ERROR, str(self._failure))
                return

    def interrupt(self) -> None:
        """End the query. Callable from any thread; returns immediately."""
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()
        self._session.interrupt()

    @property
    def was_interrupted(self) -> bool:
        return self._interrupted

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)


class PushQueries:
    """Running push queries by id."""

    def __init__(self) -> None:
        self._held: dict[str, PushQuery] = {}
        self._lock = threading.Lock()

    def begin(self, result: Result, session: Conversation) -> PushQuery:
        query = PushQuery(self.new_id(result), result, session, self)
        with self._lock:
            self._held[query.query_id] = query
        query.start()
        return query

    def new_id(self, result: Result) -> str:
        statement = result.statement
        name = statement.select.source.name if isinstance(statement, s.Query) else "PRINT"
        return f"transient_{name}_{secrets.randbelow(10**19)}"

    def forget(self, query: PushQuery) -> None:
        with self._lock:
            self._held.pop(query.query_id, None)

    def close(self, query_id: str) -> bool:
        """Close a query. Return False if the id is unknown. Ids match case-insensitively."""
        with self._lock:
            found = next(
                (each for name, each in self._held.items() if name.upper() == query_id.upper()), None
            )
        if found is None:
            return False
        found.interrupt()
        return True

    def all(self) -> list[PushQuery]:
        with self._lock:
            return list(self._held.values())

    def listed(self) -> list[dict[str, Any]]:
        return [
            {
                "queryString": each.result.statement.text,
                "sinks": [],
                "sinkKafkaTopics": [],
                "id": each.query_id,
                "statusCount": {"RUNNING": 1},
                "queryType": "PUSH",
                "state": "RUNNING",
            }
            for each in self.all()
        ]

    def stop(self, seconds: float = 20.0) -> None:
        queries = self.all()
        for each in queries:
            each.interrupt()
        for each in queries:
            each.join(seconds)
