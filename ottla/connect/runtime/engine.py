"""What a worker calls to run connectors on Spark.

    engine = Engine(spark, worker)
    running = engine.start("files", config, on_change=publish)
    running.pause()
    running.stop()

A connector with all of its tasks is one unit. The configs of its tasks are asked for when it starts; a worker that gets
another config stops the connector and starts it again with that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.java.finder import use_plugin_path
from ottla.connect.runtime.offsets import KnownOffsets
from ottla.connect.runtime.spark.host import Host, SparkHost
from ottla.connect.runtime.status import ConnectorStatus, State, TaskStatus
from ottla.connect.runtime.supervisor import RunningConnector
from ottla.connect.runtime.tasks.control import ControlServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ConnectorStatus", "Engine", "RunningConnector", "State", "TaskStatus"]


class Engine:
    """Runs the connectors of one worker. Its methods may be called by any thread."""

    def __init__(self, spark: SparkSession | None, worker: WorkerConfig, *, host: Host | None = None) -> None:
        """`host` is where tasks run; by default that is Spark."""
        if host is None:
            assert spark is not None
            host = SparkHost(spark)
        use_plugin_path(worker)
        self._worker = worker
        self._host = host
        self._control = ControlServer(host.address, host.bind)
        self._offsets = KnownOffsets(worker)

    def start(
        self,
        name: str,
        config: Mapping[str, str],
        *,
        on_change: Callable[[ConnectorStatus], None],
        on_topic: Callable[[str, int], None] | None = None,
        paused: bool = False,
    ) -> RunningConnector:
        """Returns at once; how the start goes is said by `on_change`, which is called from other threads.

        `on_topic` is called with each topic that a task begins to use, and the number of the task.
        """
        return RunningConnector(
            name,
            config,
            self._worker,
            self._host,
            self._control,
            self._offsets,
            on_change,
            on_topic or (lambda topic, task: None),
            paused,
        )

    def read_offsets(self) -> None:
        """In advance, so that the first connectors start sooner."""
        self._offsets.read()

    def close(self) -> None:
        """After the connectors have been stopped."""
        self._control.close()
