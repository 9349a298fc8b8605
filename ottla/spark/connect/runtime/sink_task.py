"""A task of a sink in an executor."""

from __future__ import annotations

from ottla.spark.connect.errors import ConnectError
from ottla.spark.connect.runtime.control import TaskControl
from ottla.spark.connect.runtime.task_spec import TaskSpec


def run_sink_task(spec: TaskSpec, control: TaskControl) -> None:
    raise ConnectError("Sinks cannot be run yet.")
