"""Where the tasks of a connector run: in a Spark job with one task for each of them, for as long as they run.

Nothing is handed back through Spark but the end of the job. Each task commits by itself, so the job can be as long as
it likes: a SourceTask keeps its connections, its replication slot or its port for all that time, and an idle connector
costs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.connect.runtime.tasks.task_spec import TaskSpec

if TYPE_CHECKING:
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
        self._each_in_a_task(len(specs), _running(tuple(specs)))

    def cancel(self, run: str) -> None:
        self._spark.sparkContext.cancelJobGroup(run)

    def warm_up(self) -> None:
        """Start what the first task would have to wait for: the process that forks Python, Spark's scheduler."""
        self._each_in_a_task(1, _idle)

    def _each_in_a_task(self, count: int, function: Callable[[Iterator[int]], Iterator[int]]) -> None:
        """Not as a query: to plan one takes longer than to start the tasks of a connector."""
        self._spark.sparkContext.parallelize(range(count), count).mapPartitions(function).collect()


def _idle(numbers: Iterator[int]) -> Iterator[int]:
    return numbers


def _running(specs: tuple[TaskSpec, ...]) -> Callable[[Iterator[int]], Iterator[int]]:
    def run(numbers: Iterator[int]) -> Iterator[int]:
        from ottla.connect.runtime.tasks.task import run_task

        for number in numbers:
            run_task(specs[number], ends_process=True)
            yield number

    return run


class ThreadHost:
    """Without Spark, each task in a thread of this process: for tasks that need it, and for tests."""

    address: str = "127.0.0.1"
    bind: str | None = None

    def run(self, specs: Sequence[TaskSpec]) -> None:
        from ottla.connect.runtime.tasks.task import run_task

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
