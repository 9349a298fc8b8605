"""The queries that this process runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.spark.sql.errors import Position, SqlError, sentence

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from ottla.spark.sql.planning.plan import Plan


@dataclass(frozen=True)
class Running:
    query_id: str
    query: StreamingQuery
    sink: str
    statement: str
    plan: Plan

    def reads(self, name: str) -> bool:
        return any(source.name == name for source in self.plan.sources.values())

    @property
    def state(self) -> str:
        failure = self.query.exception()
        if failure is not None:
            return f"ERROR: {sentence(failure)}"
        return "RUNNING" if self.query.isActive else "TERMINATED"


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
        running = self._held.pop(query_id, None)
        if running is None:
            known = f" There are {', '.join(self._held)}." if self._held else " None is running here."
            raise SqlError(f"This session runs no query {query_id}.{known}", position)
        running.query.stop()

    def stop_all(self) -> list[str]:
        stopped = list(self._held)
        for query_id in stopped:
            self.stop(query_id)
        return stopped

    def writing_to(self, name: str) -> list[Running]:
        return [each for each in self._held.values() if each.sink == name]

    def reading_from(self, name: str) -> list[Running]:
        return [each for each in self._held.values() if each.reads(name) and each.query.isActive]
