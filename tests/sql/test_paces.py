"""Starting queries a few at a time, with stand-ins for Spark's."""

from __future__ import annotations

import threading
from typing import Any

from ottla.sql.paces import Paces


class Query:
    lastProgress: Any = None

    def __init__(self, failure: str | None = None) -> None:
        self.failure = failure
        self.isActive = failure is None
        self.status = {"message": "Initializing sources"}

    def exception(self) -> Exception | None:
        return None if self.failure is None else RuntimeError(self.failure)


def test_a_query_whose_python_was_too_slow_is_started_again() -> None:
    slow = "Job aborted: Python worker failed to connect back."
    made: list[Any] = [Query(slow), Query(slow), Query()]
    made[2].status = {"message": "Waiting for data to arrive"}
    started = iter(made)
    assert Paces().begin(lambda: next(started)) is made[2]
    wrong: Any = Query("There is no column X.")
    assert Paces().begin(lambda: wrong) is wrong


def test_no_more_begin_at_once_than_allowed() -> None:
    paces = Paces(2)
    begun: list[Query] = []

    def start() -> Any:
        query = Query()
        begun.append(query)
        changed.release()
        return query

    changed = threading.Semaphore(0)
    threads = [threading.Thread(target=paces.begin, args=(start,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        assert changed.acquire(timeout=20)
    assert not changed.acquire(timeout=0.3)
    begun[0].status = {"message": "Waiting for data to arrive"}
    assert changed.acquire(timeout=20)
    for query in begun:
        query.isActive = False
    for thread in threads:
        thread.join(20)
