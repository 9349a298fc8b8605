"""One task in an executor, from the connection to the driver until it has ended."""

from __future__ import annotations

import logging

from ottla.spark.connect.java.finder import use_plugin_path
from ottla.spark.connect.runtime.status import State, trace_of
from ottla.spark.connect.runtime.tasks.control import TaskControl
from ottla.spark.connect.runtime.tasks.task_spec import TaskSpec

_log = logging.getLogger(__name__)


def run_task(spec: TaskSpec, *, ends_process: bool = False) -> None:
    """Returns when the task was asked to stop, or has failed and said so."""
    control = TaskControl(spec, ends_process=ends_process)
    try:
        use_plugin_path(spec.worker)
        if spec.is_sink:
            from ottla.spark.connect.runtime.tasks.sink_task import run_sink_task

            run_sink_task(spec, control)
        else:
            from ottla.spark.connect.runtime.tasks.source_task import run_source_task

            run_source_task(spec, control)
    except Exception as error:
        if control.lost:
            _log.warning("Task %s ended after its driver: %s", spec.label, error)
        else:
            control.report(state=State.FAILED, trace=trace_of(error))
    finally:
        control.close()
