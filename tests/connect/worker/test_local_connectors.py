"""The connectors of one worker, with an engine that reports when it likes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ottla.connect.config.providers import ConfigProviders
from ottla.connect.runtime.status import ConnectorStatus, State, TaskStatus
from ottla.connect.worker.config_state import TargetState
from ottla.connect.worker.local_connectors import LocalConnectors, Wanted
from ottla.connect.worker.status_store import MemoryStatusStore
from tests.connect.runtime.conftest import wait_for


class Hasty:
    """A paused connector that reports its state while the worker asks for the first one."""

    task_configs: list[dict[str, str]] = [{}]

    def __init__(self, on_change: Callable[[ConnectorStatus], None]) -> None:
        self._on_change = on_change
        self._status = ConnectorStatus(State.UNASSIGNED)

    @property
    def status(self) -> ConnectorStatus:
        before = self._status
        if before.state is State.UNASSIGNED:
            self._status = ConnectorStatus(State.PAUSED, None, (TaskStatus(0, State.PAUSED),))
            self._on_change(self._status)
        return before

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def stop(self) -> None:
        self._status = ConnectorStatus(State.STOPPED)

    def restart(self, *, connector: bool = True, tasks: Collection[int] | None = None) -> None: ...


class HastyEngine:
    def start(
        self,
        name: str,
        config: Mapping[str, str],
        *,
        on_change: Callable[[ConnectorStatus], None],
        on_topic: Callable[[str, int], None] | None = None,
        paused: bool = False,
    ) -> Hasty:
        return Hasty(on_change)

    def close(self) -> None: ...


def test_a_paused_connector_of_a_new_worker_is_shown_as_paused() -> None:
    statuses = MemoryStatusStore()
    connectors = LocalConnectors(HastyEngine(), statuses, ConfigProviders.from_config({}))
    shown: list[str] = []
    put = statuses.put_connector

    def recorded(name: str, status: object, **more: bool) -> None:
        shown.append(getattr(status, "state", ""))
        put(name, status, **more)  # type: ignore[arg-type]

    statuses.put_connector = recorded  # type: ignore[method-assign]
    config = {"connector.class": "FileStreamSource"}
    connectors.want({"files": Wanted(config, TargetState.PAUSED, has_tasks=True)})
    wait_for(lambda: not connectors._slots["files"].has_thread)
    assert shown == ["PAUSED"]
    connectors.want({})
    wait_for(lambda: not connectors.names)
    assert shown == ["PAUSED", "UNASSIGNED"], "it leaves this worker"
