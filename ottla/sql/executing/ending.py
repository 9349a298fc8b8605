"""TERMINATE, PAUSE and RESUME."""

from __future__ import annotations

import dataclasses

from ottla.sql.catalogue import Catalogue
from ottla.sql.errors import Position, SqlError
from ottla.sql.executing.results import Result
from ottla.sql.executing.running_queries import RunningQueries
from ottla.sql.parsing import statements as s


def terminate(statement: s.Terminate, queries: RunningQueries, catalogue: Catalogue) -> Result:
    position = statement.position
    if statement.query_id is None:
        running = [each.query_id for each in queries.all()]
        try:
            queries.stop_all(position)
        finally:
            # Even if one query could not be stopped, the others have ended.
            _note_terminated([each for each in running if queries.get(each) is None], catalogue)
        return Result(statement, f"Terminated {', '.join(running) or 'nothing: no query runs here'}.")
    if queries.get(statement.query_id) is None:
        _check_runs_nowhere_else(statement.query_id, position, catalogue)
    queries.stop(statement.query_id, position)
    _note_terminated([statement.query_id], catalogue)
    return Result(statement, f"Terminated {statement.query_id}.")


def pause_or_resume(statement: s.Pause | s.Resume, queries: RunningQueries) -> Result:
    chosen = statement.query_id
    ids = [each.query_id for each in queries.all()] if chosen is None else [chosen]
    for query_id in ids:
        if isinstance(statement, s.Pause):
            queries.pause(query_id, statement.position)
        else:
            queries.resume(query_id, statement.position)
    done = "Paused" if isinstance(statement, s.Pause) else "Resumed"
    return Result(statement, f"{done} {', '.join(ids) or 'nothing: no query runs here'}.")


def _check_runs_nowhere_else(query_id: str, position: Position, catalogue: Catalogue) -> None:
    source = next((each for each in catalogue.all() if each.query_id == query_id), None)
    if source is not None and not source.is_terminated:
        raise SqlError(
            f"The query {query_id} does not run in this session: TERMINATE it where it runs, "
            f"or DROP {source.kind} {source.name}.",
            position,
        )


def _note_terminated(query_ids: list[str], catalogue: Catalogue) -> None:
    """Mark queries as terminated in the catalogue, which every shell lists."""
    for source in catalogue.all():
        if source.query_id in query_ids:
            catalogue.put(dataclasses.replace(source, is_terminated=True))
