from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark")

from ottla.spark import workers


@pytest.fixture
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(workers, "_settled", False)
    before = gc.get_freeze_count()
    yield
    if gc.get_freeze_count() != before:
        gc.unfreeze()


@pytest.mark.usefixtures("nothing_kept")
def test_outside_of_tasks_nothing_is_kept_from_the_garbage_collector() -> None:
    before = gc.get_freeze_count()
    workers.settle()
    assert gc.get_freeze_count() == before


@pytest.mark.usefixtures("nothing_kept")
def test_a_worker_keeps_what_is_loaded_after_its_first_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_is_worker", lambda: True)
    workers.settle()
    kept = gc.get_freeze_count()
    assert kept > 1000
    more = [[] for _ in range(1000)]
    workers.settle()
    assert gc.get_freeze_count() <= kept, f"and not the {len(more)} that came later"
