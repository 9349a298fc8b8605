"""Runs one task in an executor, from the connection to the driver until the end."""

from __future__ import annotations

import logging

from ottla.client.errors import BadAddress, ClientError
from ottla.connect.errors import ConnectError
from ottla.connect.java.finder import use_plugin_path
from ottla.connect.runtime.status import State, trace_of
from ottla.connect.runtime.tasks.control import TaskControl
from ottla.connect.runtime.tasks.task_spec import TaskSpec
from ottla.connect.runtime.tasks.waiting import Doing, Waiting

_log = logging.getLogger(__name__)


#: Delay before restarting a task after a cluster error.
_PAUSE_SECONDS = 1.0


def run_task(spec: TaskSpec, *, ends_process: bool = False) -> None:
    """Run a task until it is stopped, or has failed and reported the failure."""
    control = TaskControl(spec, ends_process=ends_process)
    waiting = Waiting(spec.label, control)
    try:
        use_plugin_path(spec.worker)
        while not control.stopping.is_set():
            try:
                _run(spec, control, waiting)
            except ClientError as error:
                if not _may_pass(error):
                    raise
                waiting.failed(Doing.BEGINNING, error)
                control.stopping.wait(_PAUSE_SECONDS)
    except Exception as error:
        if control.lost:
            _log.warning("Task %s ended after its driver: %s", spec.label, error)
        else:
            control.report(state=State.FAILED, trace=trace_of(error))
    finally:
        control.close()


def _run(spec: TaskSpec, control: TaskControl, waiting: Waiting) -> None:
    if spec.is_sink:
        from ottla.connect.runtime.tasks.sink_task import run_sink_task

        run_sink_task(spec, control, waiting)
    else:
        from ottla.connect.runtime.tasks.source_task import run_source_task

        run_source_task(spec, control, waiting)


def _may_pass(error: ClientError) -> bool:
    """Return True for transient broker errors, which Kafka's workers also retry indefinitely."""
    return error.is_retriable and not isinstance(error, ConnectError | BadAddress)
