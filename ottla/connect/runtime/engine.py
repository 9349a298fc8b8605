"""The interface for workers to run connectors on Spark.

    engine = Engine(spark, worker)
    running = engine.start("files", config, on_change=publish)
    running.pause()
    running.stop()

A connector and its tasks form one unit. The engine requests the task configs when the connector starts. To apply a new
config, the worker stops the connector and starts it again.
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
    """Runs the connectors of one worker. Thread-safe."""

    def __init__(self, spark: SparkSession | None, worker: WorkerConfig, *, host: Host | None = None) -> None:
        """`host` runs the tasks. The default is Spark."""
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
        """Start a connector and return at once. Other threads report the progress to `on_change`.

        `on_topic` is called with each topic that a task starts to use, and the task number.
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
        """Read the offsets in advance, so that the first connectors start sooner."""
        self._offsets.read()

    def close(self) -> None:
        """Stop the connectors first."""
        self._control.close()
