"""Where the tasks of a connector run: in a Spark job with one task for each of them, for as long as they run.

Nothing is handed back through Spark but the end of the job. Each task commits by itself, so the job can be as long as
it likes: a SourceTask keeps its connections, its replication slot or its port for all that time, and an idle connector
costs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.spark.arrow_map import map_in_arrow
from ottla.spark.connect.runtime.tasks.task_spec import TaskSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


class Host(Protocol):
    #: Where executors reach the driver.
    address: str
    bind: str | None

    def run(self, specs: Sequence[TaskSpec]) -> None:
        """Run the tasks of one run, and return when all of them have ended. Raises what kept them from running."""

    def cancel(self, run: str) -> None:
        """End the tasks of a run without asking them."""


class SparkHost:
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        conf = spark.sparkContext.getConf()
        self.address = conf.get("spark.driver.host", "127.0.0.1") or "127.0.0.1"
        self.bind = conf.get("spark.driver.bindAddress", None)

    def run(self, specs: Sequence[TaskSpec]) -> None:
        context = self._spark.sparkContext
        context.setJobGroup(specs[0].run, f"connector {specs[0].connector}", interruptOnCancel=True)
        numbers = self._spark.range(0, len(specs), 1, len(specs))
        map_in_arrow(numbers, _running(tuple(specs)), "task int").collect()

    def cancel(self, run: str) -> None:
        self._spark.sparkContext.cancelJobGroup(run)

    def warm_up(self) -> None:
        """Start what the first task would have to wait for: the process that forks Python, Spark's planner."""
        map_in_arrow(self._spark.range(0, 1, 1, 1), _idle, "task int").collect()


def _idle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield from ()


def _running(
    specs: tuple[TaskSpec, ...],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from ottla.spark.connect.runtime.tasks.task import run_task

        for batch in batches:
            for number in batch.column(0).to_pylist():
                run_task(specs[number], ends_process=True)
                yield pa.record_batch([pa.array([number], pa.int32())], names=["task"])

    return run


class ThreadHost:
    """Without Spark, each task in a thread of this process: for tasks that need it, and for tests."""

    address: str = "127.0.0.1"
    bind: str | None = None

    def run(self, specs: Sequence[TaskSpec]) -> None:
        from ottla.spark.connect.runtime.tasks.task import run_task

        failures: list[Exception] = []

        def run(spec: TaskSpec) -> None:
            try:
                run_task(spec)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(spec,), name=spec.label) for spec in specs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def cancel(self, run: str) -> None: ...
