from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.spark.state import StatePlace
from ottla.spark.state.places import LOCAL_DIRECTORY


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StatePlace:
    monkeypatch.setenv(LOCAL_DIRECTORY, str(tmp_path / "local"))
    return StatePlace(str(tmp_path / "checkpoint"), "query", "join", 0)


@pytest.fixture
def on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Remove the local copy, as on another machine."""
    numbers = iter(range(1000))

    def move() -> None:
        monkeypatch.setenv(LOCAL_DIRECTORY, str(tmp_path / f"machine-{next(numbers)}"))

    return move
