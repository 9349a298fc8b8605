"""Runs the tasks of a connector in one long-lived Spark job, with one Spark task each.

Spark returns nothing but the end of the job. Each task commits by itself, so the job can run indefinitely: a SourceTask
keeps its connections, replication slot or port, and an idle connector costs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.connect.runtime.tasks.task_spec import TaskSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Host(Protocol):
    #: The driver's address for executors.
    address: str
    bind: str | None

    def run(self, specs: Sequence[TaskSpec]) -> None:
        """Run all tasks of a run and wait for their end. Raises the error that kept them from running."""

    def cancel(self, run: str) -> None:
        """Kill the tasks of a run."""

    def why_waiting(self) -> str:
        """Return a sentence about why a task has not started yet."""


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

    def why_waiting(self) -> str:
        context = self._spark.sparkContext
        try:
            # The driver counts as well.
            executors = context._jsc.sc().getExecutorMemoryStatus().size() - 1
        except Exception:  # Spark stops, or its JVM is gone
            return "Spark is not running: restart this worker."
        if executors <= 0 and not context.master.startswith("local"):
            return f"Spark at {context.master} has no executor for it: check that its workers run."
        return "Spark has no free core for it: add cores, or lower tasks.max."

    def warm_up(self) -> None:
        """Start the Python daemon and Spark's scheduler, so that the first task does not wait for them."""
        self._each_in_a_task(1, _idle)

    def _each_in_a_task(self, count: int, function: Callable[[Iterator[int]], Iterator[int]]) -> None:
        """Use an RDD: planning a query takes longer than starting a connector's tasks."""
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
    """Runs each task in a thread of this process, without Spark. For tests, and for tasks that need this process."""

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

    def why_waiting(self) -> str:
        return "Its thread has not started yet."
