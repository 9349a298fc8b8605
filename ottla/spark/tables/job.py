"""The table job: one Spark application that keeps the tables of all table topics up to date."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.settings import Settings
from ottla.spark.tables.lakes.catalogs import Lake
from ottla.spark.tables.lakes.maintenance import Maintenance
from ottla.spark.tables.materializer import Materializer, Step
from ottla.spark.tables.topic_tables import TablesFile, topic_tables
from ottla.spark.tables.union_options import Connection
from ottla.table_settings import TableSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("ottla.spark")

#: Steps of different topics at the same time.
_THREADS = 4
_DISCOVERY_SECONDS = 10.0
_RETRY_SECONDS = 5.0
#: The job checks a table more often than its target lag, because a commit takes time as well.
_SHARE_OF_LAG = 0.5
_TICK = 0.05


@dataclass
class _Task:
    materializer: Materializer
    maintenance: Maintenance
    due: float = 0.0
    running: Future[float] | None = None
    #: Whether the last step found nothing to do.
    is_current: bool = False
    failure: str = ""


@dataclass
class TableJob:
    """`report` is called with the topic and its step, `complain` with each new problem. Both may run in any thread."""

    spark: SparkSession
    connection: Connection
    lake: Lake
    file: TablesFile | None = None
    report: Callable[[str, Step], None] = lambda topic, step: None
    complain: Callable[[str], None] = lambda sentence: None
    #: End as soon as all tables have caught up.
    once: bool = False
    #: Only these topics.
    topics: frozenset[str] = frozenset()
    _tasks: dict[TableSettings, _Task] = field(default_factory=dict)
    _complained: set[str] = field(default_factory=set)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> bool:
        """Run until `stop`, or with `once` until all tables are current. Return False if a table failed then."""
        cluster = Cluster(
            Settings.from_properties(dict(self.connection.properties), client_id="ottla-tables")
        )
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="ottla-tables") as pool:
            try:
                self._discover(cluster, must=True)
                discovered = time.monotonic()
                while not self._stopping.is_set():
                    self._start_due(pool)
                    if self.once and self._is_done():
                        break
                    if time.monotonic() - discovered > _DISCOVERY_SECONDS:
                        self._discover(cluster, must=False)
                        discovered = time.monotonic()
                    self._stopping.wait(_TICK)
            finally:
                self._stopping.set()
                cluster.close()
        for task in self._tasks.values():
            task.materializer.close()
        return not self._complained

    def _discover(self, cluster: Cluster, *, must: bool) -> None:
        try:
            found, wrong = topic_tables(cluster, self.file)
        except ClientError as error:
            if must:
                raise
            self._complain(error.message)
            return
        if self.topics:
            found = [each for each in found if each.topic in self.topics]
            wrong = [each for each in wrong if any(f"Topic {name} " in each for name in self.topics)]
            missing = self.topics - {each.topic for each in found}
            wrong += [f"Topic {name} is no table." for name in sorted(missing) if not wrong]
        for sentence in wrong:
            self._complain(sentence)
        for settings in found:
            if settings not in self._tasks:
                try:
                    materializer = Materializer(self.spark, self.connection, self.lake, settings)
                except ClientError as error:
                    self._complain(error.message)
                    continue
                self._tasks[settings] = _Task(materializer, Maintenance(self.lake, settings))
        for settings in [each for each in self._tasks if each not in found]:
            task = self._tasks[settings]
            if task.running is None or task.running.done():
                task.materializer.close()
                del self._tasks[settings]

    def _start_due(self, pool: ThreadPoolExecutor) -> None:
        now = time.monotonic()
        for settings, task in self._tasks.items():
            if task.running is not None:
                if not task.running.done():
                    continue
                task.due = task.running.result()
                task.running = None
            if now >= task.due and not (self.once and (task.is_current or task.failure)):
                task.running = pool.submit(self._step, settings, task)

    def _is_done(self) -> bool:
        return all(
            task.running is None and (task.is_current or task.failure) for task in self._tasks.values()
        )

    def _step(self, settings: TableSettings, task: _Task) -> float:
        """Run one step, and return when the next is due."""
        began = time.monotonic()
        try:
            step = task.materializer.step()
            task.is_current = not step.behind and not step.rows and not step.dead_letters
            if step.rows or step.dead_letters or step.changes:
                self.report(settings.topic, step)
            if step.rows:
                task.maintenance.after_commit()
            task.failure = ""
        except Exception as error:
            if self._stopping.is_set():
                return 0.0
            reason = error.message if isinstance(error, ClientError) else f"{type(error).__name__}: {error}"
            task.failure = f"Topic {settings.topic}: {reason}"
            log.debug("The table job failed at topic %s.", settings.topic, exc_info=True)
            self._complain(task.failure)
            return time.monotonic() + _RETRY_SECONDS
        if step.behind or self.once:
            return time.monotonic()
        return began + settings.target_lag_ms / 1000 * _SHARE_OF_LAG

    def _complain(self, sentence: str) -> None:
        if sentence not in self._complained:
            self._complained.add(sentence)
            self.complain(sentence)
