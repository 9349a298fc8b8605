"""Two tasks on one table: one writes while the other reads back its own commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from ottla.connect import SinkConnector
from ottla.testing.connect import SinkHarness


def write_beside_another(
    monkeypatch: pytest.MonkeyPatch,
    connector: type[SinkConnector],
    writer: type,
    config: Mapping[str, str],
    is_there: Callable[[], bool],
) -> None:
    """Write ids 0, 1 and 2, where another task writes 1 as soon as the table exists."""
    interfering = [True]
    refresh = writer.refresh  # type: ignore[attr-defined]

    def late(opened: object) -> None:
        if interfering and is_there():
            interfering.clear()
            with SinkHarness(connector, config) as other:
                other.send("t", {"id": 0})
                other.send("t", {"id": 1})
                other.commit()
        refresh(opened)

    monkeypatch.setattr(writer, "refresh", late)
    with SinkHarness(connector, config) as sink:
        sink.send("t", {"id": 0})
        sink.commit()
        assert not interfering
        sink.send("t", {"id": 1})
        sink.send("t", {"id": 2})
        sink.commit()
