"""An engine for tests of membership: its connectors only hold a lock, which nobody else may hold at the same time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from ottla.spark.connect.config.worker_config import WorkerConfig
from ottla.spark.connect.runtime.status import ConnectorStatus, State, TaskStatus


class Held:
    """A connector that runs. The kernel lets go of the lock when its process ends, however that ends."""

    def __init__(
        self, directory: Path, name: str, paused: bool, on_change: Callable[[ConnectorStatus], None]
    ) -> None:
        self._on_change = on_change
        self._file = open(directory / f"{name}.lock", "w")  # noqa: SIM115
        self._name = name
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with open(directory / "violations", "a") as violations:
                violations.write(f"{name} was started by {os.getpid()} while it ran elsewhere\n")
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
        self._file.close()
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


def violations(directory: Path) -> str:
    file = directory / "violations"
    return file.read_text() if file.exists() else ""
