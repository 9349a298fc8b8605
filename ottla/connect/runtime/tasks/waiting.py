"""Reports in a task's status why the task waits: a full disk, or a broker or database that is down."""

from __future__ import annotations

import enum
import logging
import time

from ottla.client.errors import ClientError
from ottla.connect.runtime.status import State
from ottla.connect.runtime.tasks.control import TaskControl
from ottla.protocol.errors import ErrorCode

_log = logging.getLogger(__name__)

#: Do not report shorter waits, such as a broker restart or a leader change.
_PATIENCE = 1.0
_HINTS = {
    ErrorCode.KAFKA_STORAGE_ERROR: "its broker cannot write to its disk, which may be full: make room there",
}


class Doing(enum.Enum):
    """Operations that may need a retry. Each may fail independently of the others."""

    BEGINNING = enum.auto()
    POLLING = enum.auto()
    WRITING = enum.auto()
    READING = enum.auto()
    PUTTING = enum.auto()
    FLUSHING = enum.auto()


class Waiting:
    """Shows the reason as a one-sentence trace of a running task. Owner: the task, in its thread."""

    def __init__(self, label: str, control: TaskControl) -> None:
        self._label = label
        self._control = control
        self._since: dict[Doing, float] = {}
        self._said: dict[Doing, str] = {}

    def failed(self, doing: Doing, error: ClientError) -> None:
        now = time.monotonic()
        if now - self._since.setdefault(doing, now) < _PATIENCE:
            return
        hint = "" if error.code is None else _HINTS.get(error.code, "")
        sentence = error.message.rstrip(".") + (f": {hint}" if hint else "")
        if sentence != self._said.get(doing):
            self._said[doing] = sentence
            _log.warning("Task %s waits: %s", self._label, sentence)
            self.report_running()

    def succeeded(self, doing: Doing) -> None:
        if self._since.pop(doing, None) is not None and self._said.pop(doing, None) is not None:
            _log.info("Task %s goes on", self._label)
            self.report_running()

    def report_running(self) -> None:
        said = next(iter(self._said.values()), None)
        trace = None if said is None else f"{said}. The task tries again until it succeeds."
        self._control.report(state=State.RUNNING, trace=trace)
