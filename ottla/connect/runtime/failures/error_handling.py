"""Handling of failed records according to the `errors.*` settings: retries, tolerance and logging."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from ottla.connect.config.config_def import ConfigDef, ConfigType, at_least, one_of
from ottla.connect.data.record import ConnectRecord
from ottla.connect.errors import ConnectError, RetriableError
from ottla.connect.runtime.failures.stages import Failure

_log = logging.getLogger(__name__)

T = TypeVar("T")

_FIRST_DELAY_MS = 300

ERRORS = (
    ConfigDef()
    .define("errors.retry.timeout", ConfigType.LONG, 0, validator=at_least(-1))
    .define("errors.retry.delay.max.ms", ConfigType.LONG, 60_000)
    .define("errors.tolerance", ConfigType.STRING, "none", validator=one_of("none", "all"))
    .define("errors.log.enable", ConfigType.BOOLEAN, False)
    .define("errors.log.include.messages", ConfigType.BOOLEAN, False)
)


class ErrorHandling:
    """Owner: one task, in one thread."""

    def __init__(self, config: Mapping[str, str], label: str, stopping: threading.Event) -> None:
        settings = ERRORS.parse(config)
        self._retry_ms: int = settings["errors.retry.timeout"]
        self._max_delay_ms: int = settings["errors.retry.delay.max.ms"]
        self.tolerates: bool = settings["errors.tolerance"] == "all"
        self._logs: bool = settings["errors.log.enable"]
        self._logs_records: bool = settings["errors.log.include.messages"]
        self._label = label
        self._stopping = stopping

    def retrying(self, call: Callable[[], T]) -> T:
        """Call `call`, retrying after RetriableError until `errors.retry.timeout` expires."""
        deadline = time.monotonic() + self._retry_ms / 1000
        attempt = 0
        while True:
            try:
                return call()
            except RetriableError:
                if self._stopping.is_set() or (self._retry_ms >= 0 and time.monotonic() >= deadline):
                    raise
            self.wait(attempt, None if self._retry_ms < 0 else deadline)
            attempt += 1

    def wait(self, attempt: int, deadline: float | None = None) -> None:
        delay = _FIRST_DELAY_MS << min(attempt, 30)
        if delay > self._max_delay_ms:
            delay = random.randint(0, max(self._max_delay_ms, 0))
        seconds = delay / 1000
        if deadline is not None:
            seconds = min(seconds, max(deadline - time.monotonic(), 0))
        self._stopping.wait(seconds)

    def report(self, failure: Failure, record: ConnectRecord | None, where: str) -> None:
        """`where` names the record, as in `orders-0 at offset 5`."""
        if not self._logs:
            return
        about = f" {record!r}" if self._logs_records and record is not None else ""
        _log.error(
            "Error encountered in task %s. Executing stage '%s' with class '%s', where source record is%s %s: %s",
            self._label,
            failure.stage,
            failure.executing,
            about,
            where,
            failure.message,
        )

    def tolerate(self, failure: Failure, where: str) -> None:
        if not self.tolerates:
            raise ConnectError(
                f"Tolerance exceeded in error handler: {failure.message.rstrip('.')} ({failure.stage} of {where})."
            ) from failure.error
