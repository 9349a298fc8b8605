"""What the rows of the table share: the broker and Spark, sizes, and input."""

from __future__ import annotations

import os
import random
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.sql import SqlSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

PARTITIONS = 2


@dataclass(frozen=True)
class Scale:
    #: Keys of the tables that a stream is joined with.
    small_table: int = 1_000_000
    large_table: int = 10_000_000
    #: Records of the stream in each micro-batch, and how many of these are measured.
    batch: int = 50_000
    batches: int = 5
    #: Keys of the table that is asked, and how often.
    pulled_keys: int = 1_000_000
    pulls: int = 1_000
    #: Events that are counted, and how many a micro-batch takes.
    events: int = 4_000_000
    events_per_batch: int = 500_000

    @classmethod
    def quick(cls) -> Scale:
        return cls(2_000, 4_000, 500, 2, 2_000, 20, 4_000, 2_000)


@dataclass(frozen=True)
class Row:
    """`ratio` is ours to the other's; the target is what it should be at least, or at most."""

    name: str
    unit: str
    ours: float
    other: float
    beside: str
    target: float
    at_least: bool

    @property
    def ratio(self) -> float:
        return self.ours / self.other if self.other else float("inf")

    @property
    def is_met(self) -> bool:
        return self.ratio >= self.target if self.at_least else self.ratio <= self.target


@dataclass
class Bench:
    spark: SparkSession
    bootstrap_servers: str
    scale: Scale
    directory: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="ottla-bench-sql-")))

    def sql(self, trigger: str | None = None) -> SqlSession:
        """With checkpoints of its own."""
        if trigger is None:
            self.spark.conf.unset("spark.ottla.trigger")
        else:
            self.spark.conf.set("spark.ottla.trigger", trigger)
        place = tempfile.mkdtemp(dir=self.directory)
        session = SqlSession(self.spark, bootstrap_servers=self.bootstrap_servers, checkpoints=place)
        session.execute("SET 'auto.offset.reset' = 'earliest';")
        return session

    def write(self, topic: str, rows: int, key: str, value: str, timestamp: str | None = None) -> None:
        """So many records, whose keys and values are expressions over `id`."""
        columns = [f"{key} AS key", f"{value} AS value"]
        if timestamp is not None:
            columns.append(f"{timestamp} AS timestamp")
        frame = self.spark.range(0, rows, 1, PARTITIONS).selectExpr(*columns)
        options = {"kafka.bootstrap.servers": self.bootstrap_servers, "topic": topic}
        frame.write.format("ottla").options(**options).mode("append").save()


def text_key(prefix: str, number: str) -> str:
    return f"concat('{prefix}', {number})"


def named(prefix: str) -> str:
    return f"{prefix}_{random.randrange(10**9)}"


def seconds_of_batches(query: StreamingQuery) -> list[tuple[int, float]]:
    """Rows and seconds of each micro-batch that had rows, as Spark reports them."""
    found: dict[int, tuple[int, float]] = {}
    for progress in query.recentProgress:
        plain: Any = progress
        if plain["numInputRows"]:
            found[plain["batchId"]] = (plain["numInputRows"], plain["durationMs"]["triggerExecution"] / 1000)
    return [found[batch] for batch in sorted(found)]


def rows_per_second(query: StreamingQuery) -> float:
    """Without the first micro-batch, in which workers start."""
    batches = seconds_of_batches(query)
    measured = batches[1:] or batches
    return sum(rows for rows, _ in measured) / sum(seconds for _, seconds in measured)


def wait(query: StreamingQuery, batches: int, seconds: float = 3600) -> None:
    """Until so many micro-batches with rows are done."""
    deadline = time.monotonic() + seconds
    while len(seconds_of_batches(query)) < batches:
        failure = query.exception()
        if failure is not None:
            raise failure
        if time.monotonic() > deadline:
            raise TimeoutError(f"{batches} micro-batches did not come within {seconds:.0f} s")
        time.sleep(0.1)


def pin_to_one_core() -> int:
    """This process, and all that it starts from now on. The broker that runs already keeps the other cores."""
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core
