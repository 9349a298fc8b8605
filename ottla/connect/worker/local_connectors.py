"""The connectors in this worker, started and stopped until they match the desired state.

Starting and stopping take time and must not delay other connectors, so each connector has a thread while work is
pending. Callers only change the desired state.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ottla.client.errors import ClientError
from ottla.connect.config.providers import ConfigProviders
from ottla.connect.plugins import find
from ottla.connect.runtime.status import ConnectorStatus, State, TaskStatus, trace_of
from ottla.connect.worker.config_state import Config, RestartRequest, TargetState
from ottla.connect.worker.secrets import Secrets
from ottla.connect.worker.status_state import Status, TopicUse
from ottla.connect.worker.status_store import StatusStore

_log = logging.getLogger(__name__)

_ATTEMPTS_TO_STOP = 3


class Running(Protocol):
    """A started connector, as returned by `runtime.engine`."""

    @property
    def status(self) -> ConnectorStatus: ...

    @property
    def task_configs(self) -> list[dict[str, str]]: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def stop(self) -> None:
        """Stop the connector and all its tasks. On a timeout it returns with a state other than STOPPED."""

    def restart(self, *, connector: bool = True, tasks: Collection[int] | None = None) -> None: ...


class ConnectorEngine(Protocol):
    def start(
        self,
        name: str,
        config: Mapping[str, str],
        *,
        on_change: Callable[[ConnectorStatus], None],
        on_topic: Callable[[str, int], None] | None = None,
        paused: bool = False,
    ) -> Running: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Wanted:
    """`config` is the stored config. Variables are resolved when the connector starts."""

    config: Config
    target: TargetState
    #: False if the connector has never run or was stopped.
    has_tasks: bool = field(default=False, compare=False)


@dataclass
class _Slot:
    wanted: Wanted | None = None
    #: The config it runs with.
    started: Wanted | None = None
    running: Running | None = None
    restarts: list[RestartRequest] = field(default_factory=list)
    has_thread: bool = False
    #: Last reported status by task. The key None means the connector itself.
    reported: dict[int | None, Status] = field(default_factory=dict)
    secrets: Secrets = field(default_factory=lambda: Secrets({}, {}))
    reporting: threading.RLock = field(default_factory=threading.RLock)
    #: While stopping, ignore the engine's reports.
    is_stopping: bool = False


class LocalConnectors:
    """Runs the connectors of one worker on the engine.

    The connector's or the engine's thread calls `on_stopped` when a connector no longer runs here, and `on_tasks` with
    the task configs after each start.
    """

    def __init__(
        self,
        engine: ConnectorEngine,
        statuses: StatusStore,
        providers: ConfigProviders,
        *,
        tracks_topics: bool = True,
    ) -> None:
        self._engine = engine
        self._statuses = statuses
        self.providers = providers
        self._tracks_topics = tracks_topics
        self.worker_id = ""
        #: Generation of the group, which statuses carry.
        self.generation = 0
        self.on_stopped: Callable[[str], None] = lambda name: None
        self.on_tasks: Callable[[str, Sequence[Config]], None] = lambda name, configs: None
        self._slots: dict[str, _Slot] = {}
        #: Set for good, because late task configs may still change the desired state.
        self._is_closed = False
        self._lock = threading.Condition()

    # Desired state

    @property
    def names(self) -> set[str]:
        """Connectors that run or are still stopping here."""
        with self._lock:
            return set(self._slots)

    def want(self, wanted: Mapping[str, Wanted]) -> None:
        """Set the connectors to run here, and stop all others. After `stop_all`, no connector starts."""
        with self._lock:
            if self._is_closed:
                wanted = {}
            for name in set(self._slots) | set(wanted):
                slot = self._slots.setdefault(name, _Slot())
                if slot.wanted != wanted.get(name):
                    slot.wanted = wanted.get(name)
                    self._see_to(name, slot)

    def restart(self, request: RestartRequest) -> bool:
        """Return False if the connector does not run here."""
        return self._ask_restart(request.connector, request)

    def restart_task(self, connector: str, task: int) -> bool:
        with self._lock:
            slot = self._slots.get(connector)
            running = None if slot is None else slot.running
        if running is None:
            return False
        running.restart(connector=False, tasks=[task])
        return True

    def _ask_restart(self, name: str, request: RestartRequest) -> bool:
        with self._lock:
            slot = self._slots.get(name)
            if slot is None or slot.wanted is None:
                return False
            slot.restarts.append(request)
            self._see_to(name, slot)
            return True

    def stop_all(self, seconds: float) -> bool:
        """Stop all connectors and wait up to `seconds`. Return True if all have stopped."""
        with self._lock:
            self._is_closed = True
        self.want({})
        deadline = time.monotonic() + seconds
        with self._lock:
            return self._lock.wait_for(lambda: not self._slots, max(0.0, deadline - time.monotonic()))

    # Each connector's thread

    def _see_to(self, name: str, slot: _Slot) -> None:
        if not slot.has_thread:
            slot.has_thread = True
            threading.Thread(
                target=self._reconcile, args=(name, slot), name=f"connect-{name}", daemon=True
            ).start()

    def _reconcile(self, name: str, slot: _Slot) -> None:
        while True:
            with self._lock:
                wanted, started = slot.wanted, slot.started
                restarts, slot.restarts = slot.restarts, []
                if wanted == started and not restarts:
                    slot.has_thread = False
                    if wanted is None:
                        del self._slots[name]
                        self._lock.notify_all()
                    break
            try:
                self._step(name, slot, wanted, restarts)
            except Exception as error:
                _log.exception("Connector %s could not be started or stopped", name)
                with self._lock:
                    slot.started = wanted
                self._report(name, slot, ConnectorStatus(State.FAILED, trace_of(error)))
        if wanted is None:
            self.on_stopped(name)

    def _step(self, name: str, slot: _Slot, wanted: Wanted | None, restarts: list[RestartRequest]) -> None:
        started, running = slot.started, slot.running
        if running is not None and _needs_stop(started, wanted):
            slot.is_stopping = True
            _stop(name, running)
            slot.running = running = None
        if wanted is None or wanted.target is TargetState.STOPPED:
            self._said_stopped(name, slot, wanted)
        elif running is None:
            slot.is_stopping = False
            self._start(name, slot, wanted)
        else:
            if started is not None and started.target is not wanted.target:
                (running.pause if wanted.target is TargetState.PAUSED else running.resume)()
            for request in restarts:
                self._restart(running, request)
        with self._lock:
            slot.started = wanted

    def _start(self, name: str, slot: _Slot, wanted: Wanted) -> None:
        slot.reported.clear()
        if wanted.target is TargetState.PAUSED and not wanted.has_tasks:
            # As in Kafka, the connector is not asked for tasks before it resumes.
            self._report(name, slot, ConnectorStatus(State.PAUSED))
            return
        try:
            config = self.providers.resolved(wanted.config)
            slot.secrets = Secrets(wanted.config, config)
        except ClientError as error:
            self._report(name, slot, ConnectorStatus(State.FAILED, trace_of(error)))
            return

        def on_change(status: ConnectorStatus) -> None:
            with slot.reporting:
                # Two threads may report at the same time. The last one must not report an older status.
                status = status if slot.running is None else slot.running.status
                self._report(name, slot, status)
            if status.state in (State.RUNNING, State.PAUSED) and slot.running is not None:
                self.on_tasks(name, slot.secrets.hidden_in(slot.running.task_configs))

        def on_topic(topic: str, task: int) -> None:
            if self._tracks_topics:
                self._statuses.put_topic(TopicUse(topic, name, task, time.time_ns() // 1_000_000))

        slot.running = self._engine.start(
            name,
            config,
            on_change=on_change,
            on_topic=on_topic,
            paused=wanted.target is TargetState.PAUSED,
        )
        on_change(slot.running.status)

    def _restart(self, running: Running, request: RestartRequest) -> None:
        status = running.status
        connector = not request.only_failed or status.state is State.FAILED
        tasks: Collection[int] = ()
        if request.include_tasks:
            tasks = [
                each.id for each in status.tasks if not request.only_failed or each.state is State.FAILED
            ]
        if connector or tasks:
            running.restart(connector=connector, tasks=tasks)

    # Statuses

    def _report(self, name: str, slot: _Slot, status: ConnectorStatus) -> None:
        if slot.is_stopping or status.state in (State.STOPPED, State.UNASSIGNED):
            return  # until the connector has started, its last status stays
        version = _version(slot)
        self._put(name, slot, None, status.state, status.trace, version)
        for task in status.tasks:
            # Kafka shows a task only after its first start.
            if task.state is not State.UNASSIGNED or task.trace is not None or task.id in slot.reported:
                self._put(name, slot, task.id, task.state, task.trace, version)
        self._forget_tasks(name, slot, status.tasks)

    def _put(
        self, name: str, slot: _Slot, task: int | None, state: State, trace: str | None, version: str | None
    ) -> None:
        status = Status(state.value, self.worker_id, self.generation, slot.secrets.hidden(trace), version)
        known = slot.reported.get(task)
        if known is not None and known._replace(generation=status.generation) == status:
            return
        slot.reported[task] = status
        if task is None:
            self._statuses.put_connector(name, status, safely=state is not State.RUNNING)
        else:
            self._statuses.put_task(name, task, status, safely=state is not State.RUNNING)

    def _forget_tasks(self, name: str, slot: _Slot, tasks: Sequence[TaskStatus]) -> None:
        """Delete the statuses of surplus tasks if the connector has fewer than before."""
        for task in self._statuses.state().tasks.get(name, {}):
            if tasks and task >= len(tasks):
                slot.reported.pop(task, None)
                self._statuses.put_task(name, task, None)

    def _said_stopped(self, name: str, slot: _Slot, wanted: Wanted | None) -> None:
        version = _version(slot) if wanted is None else _version_of(wanted.config)
        for task in [each for each in slot.reported if each is not None]:
            if wanted is None:
                self._put(name, slot, task, State.UNASSIGNED, None, None)
        state = State.UNASSIGNED if wanted is None else State.STOPPED
        if wanted is not None or slot.reported:
            self._put(name, slot, None, state, None, version)
        if wanted is not None:
            for task in self._statuses.state().tasks.get(name, {}):
                self._statuses.put_task(name, task, None)


def _stop(name: str, running: Running) -> None:
    """Stop a connector, waiting longer than the engine, because no other worker may run it before it has stopped."""
    for _ in range(_ATTEMPTS_TO_STOP):
        running.stop()
        if running.status.state is State.STOPPED:
            return
        _log.warning("Connector %s has not stopped yet", name)
    _log.error("Connector %s could not be stopped. Its tasks may still run: restart this worker.", name)


def _needs_stop(started: Wanted | None, wanted: Wanted | None) -> bool:
    return (
        wanted is None
        or started is None
        or started.config != wanted.config
        or wanted.target is TargetState.STOPPED
    )


def _version(slot: _Slot) -> str | None:
    wanted = slot.wanted or slot.started
    return None if wanted is None else _version_of(wanted.config)


def _version_of(config: Config) -> str | None:
    try:
        return find(config.get("connector.class", "")).version
    except ClientError:
        return None
