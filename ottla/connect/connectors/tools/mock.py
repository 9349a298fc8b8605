"""Connectors for testing workers, which do nothing or fail on request.

`mock_mode=connector-failure` or `task-failure` fails after `delay_ms` (default: 15 seconds).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from ottla.connect.api import (
    Config,
    Connector,
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


def _delay(config: Config) -> float:
    return int(config.get("delay_ms", _DELAY_MS)) / 1000


def _failure(config: Config) -> ConnectError:
    return ConnectError(f"This {config['mock_mode']} was requested by mock_mode.")


class _TaskFailure:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._at = time.monotonic() + _delay(config)

    def check(self) -> None:
        if self._config.get("mock_mode") == "task-failure" and time.monotonic() > self._at:
            raise _failure(self._config)


class _FailingConnector(Connector):
    """Fails as a connector, whose tasks go on, as in Kafka."""

    _timer: threading.Timer | None = None

    def start(self, config: Config) -> None:
        super().start(config)
        if config.get("mock_mode") == "connector-failure":
            self._timer = threading.Timer(_delay(config), lambda: self.context.raise_error(_failure(config)))
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class MockSourceConnector(_FailingConnector, SourceConnector):
    config_def = ConfigDef()
    summary = "gives nothing, or fails, for tests"


class MockSourceTask(SourceTask):
    def start(self, config: Config, context: SourceTaskContext) -> None:
        self._failure = _TaskFailure(config)

    def poll(self) -> Sequence[SourceRecord]:
        self._failure.check()
        return []


class MockSinkConnector(_FailingConnector, SinkConnector):
    config_def = ConfigDef()
    summary = "forgets records, or fails, for tests"


class MockSinkTask(SinkTask):
    def start(self, config: Config, context: SinkTaskContext) -> None:
        self._failure = _TaskFailure(config)

    def put(self, records: Sequence[SinkRecord]) -> None:
        self._failure.check()


MockSourceConnector.task_class = MockSourceTask
MockSinkConnector.task_class = MockSinkTask
