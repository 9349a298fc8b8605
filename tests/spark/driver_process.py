"""A Spark driver in its own process, for tests that kill it: `python -m tests.spark.driver_process OPTIONS`.

It processes all available input and ends when a pipeline fails, or it runs forever and restarts failed pipelines.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ottla.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

ROOT = Path(__file__).parents[2]


class DriverProcess:
    """Started with pipeline names and options; its output is in a file."""

    def __init__(self, directory: Path, options: dict[str, str], *pipelines: str) -> None:
        self._pids = directory / "pids"
        self._pids.unlink(missing_ok=True)
        self.output = directory / "driver.log"
        arguments = json.dumps({**options, "pids": str(self._pids)})
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.driver_process", arguments, *pipelines],
                cwd=directory,
                env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_WORKER_DIR": str(directory / "work")},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def pids(self) -> list[int]:
        """Return the driver's Java and Python processes, once they exist."""
        try:
            return [int(each) for each in self._pids.read_text().split()]
        except FileNotFoundError:
            return []

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self, seconds: float) -> int:
        return self._process.wait(seconds)

    def kill(self) -> None:
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()


def main() -> None:
    from tests.spark import chaos_pipelines
    from tests.spark.crashing import CrashingDataSource, crash_in_foreach_batch

    options = json.loads(sys.argv[1])
    config: dict[str, Any] = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.ui.enabled": "false",
        # On a busy machine, workers start slowly.
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.network.timeout": "300s",
    }
    spark = session("tests", master=options["master"], config=config)
    gateway: Any = spark.sparkContext._gateway
    Path(options["pids"]).write_text(f"{gateway.proc.pid} {os.getpid()}")
    if "crash" in options:
        spark.dataSource.register(CrashingDataSource)
        crash_in_foreach_batch(options["crash"], options["pids"])
    if "interval" in options:
        tend(spark, options, sys.argv[2:])
    for query in [getattr(chaos_pipelines, name)(spark, options) for name in sys.argv[2:]]:
        query.awaitTermination()
    spark.stop()


def tend(spark: SparkSession, options: dict[str, str], names: list[str]) -> NoReturn:
    from tests.spark import chaos_pipelines

    running: dict[str, StreamingQuery] = {}
    while True:
        for name in names:
            query = running.get(name)
            if query is not None and query.isActive:
                continue
            if query is not None:
                print(f"{name} is started again: {str(query.exception())[:400]}", flush=True)
            query = running[name] = getattr(chaos_pipelines, name)(spark, options)
            # One after the other: on a busy machine Spark gives up on workers that start slowly.
            while query.isActive and query.lastProgress is None:
                time.sleep(0.1)
        time.sleep(0.2)


if __name__ == "__main__":
    main()
