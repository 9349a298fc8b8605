"""Connectors for testing workers, which do nothing or fail on request.

`mock_mode=connector-failure` or `task-failure` fails after `delay_ms` (default: 15 seconds).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from ottla.connect.api import (
    Config,
    SinkConnector,
    SinkTask,
    SinkTaskContext,
    SourceConnector,
    SourceTask,
    SourceTaskContext,
)
from ottla.connect.config.config_def import ConfigDef
from ottla.connect.data.record import SinkRecord, SourceRecord
from ottla.connect.errors import ConnectError

_DELAY_MS = 15_000


class _Failure:
    """Delayed failure. `connector-failure` also fails the task, because connectors have no thread here."""

    def __init__(self, config: Config) -> None:
        self._mode = config.get("mock_mode", "")
        self._at = time.monotonic() + int(config.get("delay_ms", _DELAY_MS)) / 1000

    def check(self) -> None:
        if self._mode in ("task-failure", "connector-failure") and time.monotonic() > self._at:
            raise ConnectError(f"This {self._mode} was asked for by mock_mode.")


class MockSourceConnector(SourceConnector):
    config_def = ConfigDef()
    summary = "gives nothing, or fails, for tests"


class MockSourceTask(SourceTask):
    def start(self, config: Config, context: SourceTaskContext) -> None:
        self._failure = _Failure(config)

    def poll(self) -> Sequence[SourceRecord]:
        self._failure.check()
        return []


class MockSinkConnector(SinkConnector):
    config_def = ConfigDef()
    summary = "forgets records, or fails, for tests"


class MockSinkTask(SinkTask):
    def start(self, config: Config, context: SinkTaskContext) -> None:
        self._failure = _Failure(config)

    def put(self, records: Sequence[SinkRecord]) -> None:
        self._failure.check()


MockSourceConnector.task_class = MockSourceTask
MockSinkConnector.task_class = MockSinkTask
