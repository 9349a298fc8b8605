"""The engine of a worker, with its Spark session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.runtime.engine import ConnectorStatus, Engine, RunningConnector
from ottla.connect.runtime.spark.host import SparkHost
from ottla.connect.runtime.spark.spark_session import connect_session


class SparkEngine:
    """Starts Spark on construction, and stops it on close."""

    def __init__(self, worker: WorkerConfig) -> None:
        self._spark = connect_session(worker)
        host = SparkHost(self._spark)
        if self._spark.sparkContext.master.startswith("local"):
            # A joining worker gets connectors at once. (On a cluster, executors may not be available yet.)
            host.warm_up()
        self._engine = Engine(self._spark, worker, host=host)
        threading.Thread(target=self._engine.read_offsets, name="offsets", daemon=True).start()

    def start(
        self,
        name: str,
        config: Mapping[str, str],
        *,
        on_change: Callable[[ConnectorStatus], None],
        on_topic: Callable[[str, int], None] | None = None,
        paused: bool = False,
    ) -> RunningConnector:
        return self._engine.start(name, config, on_change=on_change, on_topic=on_topic, paused=paused)

    def close(self) -> None:
        self._engine.close()
        self._spark.stop()
