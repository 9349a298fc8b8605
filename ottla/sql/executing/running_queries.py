"""Queries that run in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.sql.errors import Position, SqlError, sentence

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from ottla.sql.planning.plan import Plan


@dataclass
class Running:
    """A query and a way to restart it. `start_again` resumes from the checkpoint after a pause or a failure.

    `query` is None until the first resume if the query was paused when the server started.
    """

    query_id: str
    query: StreamingQuery | None
    sink: str
    statement: str
    plan: Plan
    start_again: Callable[[], StreamingQuery] | None = None
    is_paused: bool = False

    def reads(self, name: str) -> bool:
        return any(source.name == name for source in self.plan.sources.values())

    @property
    def state(self) -> str:
        if self.query is None or self.is_paused:
            return "PAUSED"
        failure = self.query.exception()
        if failure is not None:
            return f"ERROR: {sentence(failure)}"
        return "RUNNING" if self.query.isActive else "TERMINATED"

    @property
    def is_active(self) -> bool:
        return self.query is not None and bool(self.query.isActive)

    @property
    def has_failed(self) -> bool:
        return not self.is_paused and self.query is not None and self.query.exception() is not None


class RunningQueries:
    def __init__(self) -> None:
        self._held: dict[str, Running] = {}

    def add(self, running: Running) -> None:
        self._held[running.query_id] = running

    def all(self) -> list[Running]:
        return list(self._held.values())

    def get(self, query_id: str) -> Running | None:
        return self._held.get(query_id)

    def stop(self, query_id: str, position: Position | None = None) -> None:
        """Stop the query and wait for it. A query that fails to stop stays in the list."""
        _stop(self._find(query_id, position), position)
        del self._held[query_id]

    def _find(self, query_id: str, position: Position | None) -> Running:
        running = self._held.get(query_id)
        if running is None:
            known = f" There are {', '.join(self._held)}." if self._held else " None is running here."
            raise SqlError(f"This session runs no query {query_id}.{known}", position)
        return running

    def pause(self, query_id: str, position: Position | None = None) -> None:
        """Stop the query until `resume`. Its checkpoint keeps the position."""
        running = self._find(query_id, position)
        if not running.is_paused:
            _stop(running, position)
            running.is_paused = True

    def resume(self, query_id: str, position: Position | None = None) -> None:
        """Restart a paused or failed query from its checkpoint. Do nothing for an active query."""
        running = self._find(query_id, position)
        if running.start_again is not None and (running.is_paused or not running.is_active):
            running.query = running.start_again()
            running.is_paused = False

    def stop_all(self, position: Position | None = None) -> list[str]:
        """Stop all queries, even if one fails to stop. Raise that error at the end."""
        stopped = []
        failure: SqlError | None = None
        for query_id in list(self._held):
            try:
                self.stop(query_id, position)
                stopped.append(query_id)
            except SqlError as error:
                failure = error
        if failure is not None:
            raise failure
        return stopped

    def writing_to(self, name: str) -> list[Running]:
        return [each for each in self._held.values() if each.sink == name]

    def reading_from(self, name: str) -> list[Running]:
        return [
            each for each in self._held.values() if each.reads(name) and (each.is_paused or each.is_active)
        ]


def _stop(running: Running, position: Position | None) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if running.query is None:
        return
    try:
        running.query.stop()
    except (PySparkException, Py4JError) as error:
        # A user may have set spark.sql.streaming.stopTimeout. By default Spark waits until the query has stopped.
        raise SqlError(
            f"The query {running.query_id} was asked to stop and has not: {_reason(error)}", position
        ) from error


def _reason(error: Exception) -> str:
    java: Any = getattr(error, "java_exception", None)
    message = None if java is None else java.getMessage()
    return sentence(error) if message is None else sentence(Exception(message))
