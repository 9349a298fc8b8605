"""Supervises a running connector in the driver: its state, its tasks, and its thread."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.connect.api import (
    Connector,
    ConnectorContext,
    SinkConnector,
    SourceOffset,
    SourcePartition,
    TopicPartition,
)
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.errors import ConnectError
from ottla.connect.plugins import load_class
from ottla.connect.runtime.assignment import SinkTopics
from ottla.connect.runtime.offsets import KnownOffsets, offset_topics, read_offsets
from ottla.connect.runtime.spark.host import Host, ThreadHost
from ottla.connect.runtime.status import ConnectorStatus, State, TaskStatus, trace_of
from ottla.connect.runtime.task_configs import ask_for_task_configs
from ottla.connect.runtime.tasks.control import ControlServer, Report
from ottla.connect.runtime.tasks.task_spec import TaskSpec
from ottla.spark.pipelines.failure import sentence

_log = logging.getLogger(__name__)

#: Give up after this many consecutive runs in which no task started.
_MOST_BROKEN_RUNS = 5
_BACKOFF_SECONDS = 1.0
#: A task that has not reported after this time is shown as waiting, and looked at again after the same time.
_START_SECONDS = 5.0
#: Extra time, beyond the tasks' own shutdown timeout, for Spark to kill them.
_CANCEL_SECONDS = 30.0


class _Context(ConnectorContext):
    def __init__(self, running: RunningConnector) -> None:
        self._running = running

    def request_task_reconfiguration(self) -> None:
        self._running._reconfigure()

    def raise_error(self, error: Exception) -> None:
        self._running._connector_failed(error)

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        return self._running._offset(partition)


class RunningConnector:
    """Owner of the connector instance and its runs: one thread. All methods are thread-safe.

    A run is one Spark job with all tasks that have not failed. A pause, a restart or new partitions of a sink's topics
    stop the run. The next run starts with the new tasks.
    """

    def __init__(
        self,
        name: str,
        config: Mapping[str, str],
        worker: WorkerConfig,
        host: Host,
        control: ControlServer,
        offsets: KnownOffsets,
        on_change: Callable[[ConnectorStatus], None],
        on_topic: Callable[[str, int], None],
        paused: bool,
    ) -> None:
        self.name = name
        self.config = dict(config)
        self._worker = worker
        self._host = self._place = host
        self._control = control
        self._offsets = offsets
        self._on_change = on_change
        self._on_topic = on_topic
        self._connector: Connector | None = None
        self._topics: SinkTopics | None = None
        self._task_configs: list[dict[str, str]] = []

        self._lock = threading.Condition()
        self._target = State.PAUSED if paused else State.RUNNING
        self._renew_connector = True
        self._renew_tasks = False
        self._run: str | None = None
        #: Counts requests. A run planned before the latest request does not start.
        self._requests = 0
        self._broken_runs = 0
        self._status = ConnectorStatus(State.UNASSIGNED)
        self._thread = threading.Thread(target=self._supervise, name=f"connector-{name}", daemon=True)
        self._thread.start()

    # The interface for workers

    @property
    def status(self) -> ConnectorStatus:
        return self._status

    @property
    def task_configs(self) -> list[dict[str, str]]:
        return [dict(each) for each in self._task_configs]

    @property
    def is_sink(self) -> bool:
        return isinstance(self._connector, SinkConnector)

    def pause(self) -> None:
        self._aim(State.PAUSED)

    def resume(self) -> None:
        self._aim(State.RUNNING)

    def stop(self, timeout: float | None = None) -> None:
        """Stop the connector and wait until no task runs."""
        self._aim(State.STOPPED)
        if threading.current_thread() is not self._thread:
            most = self._worker.shutdown_timeout + _CANCEL_SECONDS
            self._thread.join(most if timeout is None else timeout)

    def restart(self, *, connector: bool = True, tasks: Collection[int] | None = None) -> None:
        """Restart the given tasks (None: all tasks), and by default the connector instance."""
        with self._lock:
            self._renew_connector |= connector
            self._broken_runs = 0
            named = {each.id for each in self._status.tasks} if tasks is None else set(tasks)
            restarted = tuple(
                TaskStatus(each.id, State.RESTARTING) if each.id in named else each
                for each in self._status.tasks
            )
            state = State.RESTARTING if connector else self._status.state
            self._publish(ConnectorStatus(state, None if connector else self._status.trace, restarted))
        self._interrupt()

    # The thread

    def _supervise(self) -> None:
        try:
            while True:
                with self._lock:
                    self._lock.wait_for(self._has_work)
                    target, renew, ask = self._target, self._renew_connector, self._renew_tasks
                    if target is State.STOPPED:
                        break
                    self._renew_connector = self._renew_tasks = False
                    planned_at = self._requests
                if renew:
                    self._start_connector()
                elif ask:
                    self._ask_for_tasks()
                if target is State.RUNNING:
                    self._run_tasks(planned_at)
                else:
                    self._show_paused()
        except Exception as error:
            _log.exception("The supervisor of connector %s has failed", self.name)
            self._publish(replace(self._status, state=State.FAILED, trace=trace_of(error)))
        self._stop_connector()
        if self._target is State.STOPPED:
            self._publish(ConnectorStatus(State.STOPPED))

    def _has_work(self) -> bool:
        if self._target is State.STOPPED or self._renew_connector or self._renew_tasks:
            return True
        if self._target is State.RUNNING:
            return self._status.state is State.PAUSED or bool(self._runnable())
        return self._status.state is not State.PAUSED and self._status.state is not State.FAILED

    def _runnable(self) -> list[int]:
        if self._connector is None:
            return []
        return [each.id for each in self._status.tasks if each.state is not State.FAILED]

    def _start_connector(self) -> None:
        self._stop_connector()
        try:
            connector = load_class(self.config.get("connector.class", ""))()
            if isinstance(connector, SinkConnector):
                self._topics = SinkTopics(self.name, self.config, self._worker, self._reassign)
            connector.context = _Context(self)
            connector.start(self.config)
            self._connector = connector
            self._task_configs = ask_for_task_configs(connector, self.name, self.config)
        except Exception as error:
            _log.warning("Connector %s has failed: %s", self.name, error)
            self._stop_connector()
            self._publish(ConnectorStatus(State.FAILED, trace_of(error)))
            return
        tasks = tuple(TaskStatus(task, State.UNASSIGNED) for task in range(len(self._task_configs)))
        self._publish(ConnectorStatus(State.RUNNING, None, tasks))

    def _ask_for_tasks(self) -> None:
        """Request new task configs after the connector has asked for reconfiguration."""
        if self._connector is None:
            return
        try:
            configs = ask_for_task_configs(self._connector, self.name, self.config)
        except Exception as error:
            self._connector_failed(error)
            return
        if configs != self._task_configs:
            self._task_configs = configs
            tasks = tuple(TaskStatus(task, State.UNASSIGNED) for task in range(len(configs)))
            self._publish(replace(self._status, tasks=tasks))

    def _stop_connector(self) -> None:
        connector, self._connector = self._connector, None
        topics, self._topics = self._topics, None
        if topics is not None:
            topics.close()
        if connector is not None:
            try:
                connector.stop()
            except Exception:
                _log.exception("Connector %s could not be stopped cleanly", self.name)

    def _show_paused(self) -> None:
        if self._status.state is State.FAILED:
            return
        tasks = tuple(
            each if each.state is State.FAILED else TaskStatus(each.id, State.PAUSED)
            for each in self._status.tasks
        )
        self._publish(ConnectorStatus(State.PAUSED, None, tasks))

    # Runs

    def _run_tasks(self, planned_at: int) -> None:
        if self._connector is None:
            return
        if self._status.state not in (State.RUNNING, State.FAILED):
            self._publish(replace(self._status, state=State.RUNNING, trace=None))
        run = uuid.uuid4().hex
        try:
            specs = self._specs(run)
        except ClientError as error:
            self._tasks_failed(error)
            return
        if not specs:
            return
        self._control.begin(run, self._reported)
        with self._lock:
            if self._requests != planned_at:
                self._control.end(run)
                return
            self._run = run
        self._reached = False
        self._started: set[int] = set()
        self._place = ThreadHost() if self._connector.runs_in_driver() else self._host
        self._watch(run, [spec.task for spec in specs])
        try:
            self._place.run(specs)
            self._broken_runs = 0
        except Exception as error:
            self._broken(error, planned_at)
        finally:
            with self._lock:
                self._run = None
            self._control.end(run)

    def _watch(self, run: str, tasks: Sequence[int]) -> None:
        """Look after a while for tasks that still wait for Spark, as long as the run lasts."""
        later = threading.Timer(_START_SECONDS, self._show_waiting, [run, tasks])
        later.daemon = True
        later.start()

    def _show_waiting(self, run: str, tasks: Sequence[int]) -> None:
        with self._lock:
            if self._run != run:
                return
            waiting = [task for task in tasks if task not in self._started]
        if waiting:
            self._unassigned(waiting, f"The task waits. {self._place.why_waiting()}")
        self._watch(run, tasks)

    def _unassigned(self, lost: Collection[int], reason: str) -> None:
        with self._lock:
            tasks = tuple(
                TaskStatus(each.id, State.UNASSIGNED, reason)
                if each.id in lost and each.state is not State.FAILED
                else each
                for each in self._status.tasks
            )
            self._publish(replace(self._status, tasks=tasks))

    def _specs(self, run: str) -> list[TaskSpec]:
        assigned: Sequence[tuple[TopicPartition, ...]] = [()] * len(self._task_configs)
        if self._topics is not None:
            assigned = self._topics.assign(len(self._task_configs))
        return [
            TaskSpec(
                self.name,
                task,
                run,
                self.config,
                self._task_configs[task],
                self._worker,
                self._control.address,
                self._topics is not None,
                tuple(assigned[task]),
                # Every task reads its own copy, because tasks may be threads of one process.
                {} if self._topics is not None else self._offsets.of(self.name),
            )
            for task in self._runnable()
        ]

    def _broken(self, error: Exception, planned_at: int) -> None:
        """Handle a run that ended without a request: an executor was lost, or Spark is shutting down.

        If the run was cancelled on request, do nothing.
        """
        with self._lock:
            asked = self._requests != planned_at
        if asked:
            return
        self._broken_runs = 0 if self._reached else self._broken_runs + 1
        _log.warning("The tasks of connector %s were lost: %s", self.name, error)
        if self._broken_runs >= _MOST_BROKEN_RUNS:
            self._tasks_failed(
                ConnectError(f"Spark cannot run the tasks of {self.name}: {sentence(str(error))}")
            )
            return
        reason = f"Spark has lost the task, and starts it again: {sentence(str(error))}"
        self._unassigned([each.id for each in self._status.tasks], reason)
        with self._lock:
            self._lock.wait_for(lambda: self._target is not State.RUNNING, _BACKOFF_SECONDS)

    def _tasks_failed(self, error: Exception) -> None:
        trace = trace_of(error)
        with self._lock:
            tasks = tuple(
                each if each.state is State.FAILED else TaskStatus(each.id, State.FAILED, trace)
                for each in self._status.tasks
            )
            self._publish(replace(self._status, tasks=tasks))

    # Reports and requests from other threads

    def _reported(self, task: int, report: Report) -> None:
        if "topic" in report:
            self._on_topic(report["topic"], task)
        if "lost" in report:
            with self._lock:
                self._started.discard(task)
            self._unassigned([task], "The process of the task has ended. Spark starts the task again.")
        if "state" in report:
            self._reached = True
            self._started.add(task)
            status = TaskStatus(task, State(report["state"]), report.get("trace"))
            with self._lock:
                tasks = tuple(status if each.id == task else each for each in self._status.tasks)
                self._publish(replace(self._status, tasks=tasks))

    def _reconfigure(self) -> None:
        with self._lock:
            self._renew_tasks = True
        self._interrupt()

    def _connector_failed(self, error: Exception) -> None:
        _log.warning("Connector %s has failed: %s", self.name, error)
        self._publish(replace(self._status, state=State.FAILED, trace=trace_of(error)))

    def _offset(self, partition: SourcePartition) -> SourceOffset | None:
        cluster = Cluster(self._worker.client_settings)
        try:
            topics = offset_topics(self._worker.offset_topic, self.config)
            return read_offsets(cluster, topics, self.name, self._offsets.of(self.name)).get(partition)
        finally:
            cluster.close()

    def _aim(self, target: State) -> None:
        with self._lock:
            if self._target in (target, State.STOPPED):
                return
            self._target = target
        self._interrupt()

    def _reassign(self) -> None:
        self._interrupt()

    def _interrupt(self) -> None:
        with self._lock:
            run = self._run
            self._requests += 1
            self._lock.notify_all()
        if run is not None:
            self._control.stop(run)
            grace = threading.Timer(self._worker.shutdown_timeout, self._cancel, [run])
            grace.daemon = True
            grace.start()

    def _cancel(self, run: str) -> None:
        with self._lock:
            if self._run != run:
                return
        _log.warning("Tasks of connector %s did not stop in time, and are ended", self.name)
        try:
            self._place.cancel(run)
        except Exception:
            _log.exception("The run of connector %s could not be cancelled", self.name)

    def _publish(self, status: ConnectorStatus) -> None:
        with self._lock:
            if status == self._status:
                return
            self._status = status
            self._lock.notify_all()
        self._on_change(status)
