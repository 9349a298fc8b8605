"""A task of a source in an executor."""

from __future__ import annotations

from ottla.spark.connect.errors import ConnectError
from ottla.spark.connect.runtime.control import TaskControl
from ottla.spark.connect.runtime.task_spec import TaskSpec


def run_source_task(spec: TaskSpec, control: TaskControl) -> None:
    raise ConnectError("Sources cannot be run yet.")
