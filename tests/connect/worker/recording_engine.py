"""An engine for membership tests: its connectors only hold an exclusive lock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.runtime.status import ConnectorStatus, State, TaskStatus
from tests.connect.chaos.locks import Lock


class Held:
    """A running connector."""

    def __init__(
        self, directory: Path, name: str, paused: bool, on_change: Callable[[ConnectorStatus], None]
    ) -> None:
        self._on_change = on_change
        self._name = name
        self._lock = Lock(directory, name)
        self._state = State.PAUSED if paused else State.RUNNING

    @property
    def status(self) -> ConnectorStatus:
        return ConnectorStatus(self._state, None, (TaskStatus(0, self._state),))

    @property
    def task_configs(self) -> list[dict[str, str]]:
        return [{"connector": self._name}]

    def pause(self) -> None:
        self._state = State.PAUSED
        self._on_change(self.status)

    def resume(self) -> None:
        self._state = State.RUNNING
        self._on_change(self.status)

    def stop(self) -> None:
        self._lock.release()
        self._state = State.STOPPED

    def restart(self, *, connector: bool = True, tasks: Collection[int] | None = None) -> None: ...


class RecordingEngine:
    def __init__(self, worker: WorkerConfig) -> None:
        self._directory = Path(worker.properties["spark.test.directory"])

    def start(
        self,
        name: str,
        config: Mapping[str, str],
        *,
        on_change: Callable[[ConnectorStatus], None],
        on_topic: Callable[[str, int], None] | None = None,
        paused: bool = False,
    ) -> Held:
        return Held(self._directory, name, paused, on_change)

    def close(self) -> None: ...
