"""The status of a connector and its tasks, in the terms of Connect's REST API."""

from __future__ import annotations

import enum
import traceback
from dataclasses import dataclass

from ottla.client.errors import ClientError


class State(enum.StrEnum):
    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    DESTROYED = "DESTROYED"


@dataclass(frozen=True, slots=True)
class TaskStatus:
    id: int
    state: State
    #: For failures: one sentence, then the details.
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    state: State
    trace: str | None = None
    tasks: tuple[TaskStatus, ...] = ()


def trace_of(error: BaseException) -> str:
    sentence = error.message if isinstance(error, ClientError) else f"{type(error).__name__}: {error}"
    return f"{sentence}\n{''.join(traceback.format_exception(error))}"
