"""What the Spark benchmark measures: each experiment runs once through one connector."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from bench.measuring.figures import Better, percentile
from bench.rows import spark_data

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

OURS, THEIRS = "ottla", "kafka"
ROWS_PER_SECOND = "M rows/s"
WARM_UP_BATCHES = 10


@dataclass(frozen=True)
class Scale:
    """How much work a row does. `quick` shows that everything works; its figures mean little."""

    small_rows: int = 1_500_000
    large_rows: int = 250_000
    small_batches: int = 80

    def rows(self, size: int) -> int:
        return self.small_rows if size <= 100 else self.large_rows

    @classmethod
    def quick(cls) -> Scale:
        return cls(100_000, 20_000, 10)


@dataclass(frozen=True)
class Figure:
    """A row of the table. The target is the least ratio to Spark's own connector."""

    name: str
    unit: str = ROWS_PER_SECOND
    better: Better = "higher"
    target: float | None = None


@dataclass
class Bench:
    """A broker, a session, and the topics that were filled for the experiments."""

    spark: SparkSession
    servers: str
    scale: Scale
    _filled: set[str] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=count)

    def topic(self, size: int, partitions: int, codec: str) -> str:
        """Filled at the first time it is asked for."""
        name = f"read-{size}-{partitions}-{codec}"
        if name not in self._filled:
            rows = self.scale.rows(size)
            spark_data.fill(self.servers, name, partitions, codec, size, rows)
            self._filled.add(name)
        return name

    def filled(self, name: str, values: Callable[[], list[bytes]]) -> str:
        """The same with values of one's own, uncompressed, in eight partitions."""
        if name not in self._filled:
            spark_data.fill(self.servers, name, 8, "none", 100, self.scale.rows(100), values())
            self._filled.add(name)
        return name

    @contextmanager
    def empty_topic(self, partitions: int) -> Iterator[str]:
        name = f"written-{next(self._numbers)}"
        spark_data.create(self.servers, name, partitions)
        yield name
        spark_data.delete(self.servers, [name])

    def read(self, connector: str, topic: str, **options: str) -> DataFrame:
        given = {"kafka.bootstrap.servers": self.servers, "subscribe": topic, **options}
        return self.spark.read.format(connector).options(**given).load()


@dataclass(frozen=True)
class Experiment:
    figures: tuple[Figure, ...]
    measure: Callable[[Bench, str], dict[str, float]]
    #: Asked before anything is measured: why our side cannot be, if so.
    missing: Callable[[], str | None] = lambda: None


def every_experiment() -> list[Experiment]:
    """In the order of the table."""
    return [
        *(
            reading(size, partitions, codec)
            for size in (100, 1000)
            for partitions in (1, 8)
            for codec in ("none", "lz4", "zstd")
        ),
        counting_json(),
        writing(100, target=2),
        writing(1000, target=None),
        writing_exactly_once(),
        small_batches(),
    ]


# Reading


def reading(size: int, partitions: int, codec: str) -> Experiment:
    name = f"read, {size} B, {partitions} partition{'s' if partitions > 1 else ''}, {codec}"
    figure = Figure(name, target=2 if size == 100 else 1)

    def measure(bench: Bench, connector: str) -> dict[str, float]:
        frame = bench.read(connector, bench.topic(size, partitions, codec))
        seconds = timed(lambda: frame.write.format("noop").mode("overwrite").save())
        return {name: bench.scale.rows(size) / seconds / 1e6}

    return Experiment((figure,), measure)


def counting_json() -> Experiment:
    typed = takes_option({"valueFormat": "json", "valueSchema": spark_data.SCHEMA})
    name = f"JSON to columns, count per tag ({'typed at the source' if typed else 'from_json in both'})"

    def measure(bench: Bench, connector: str) -> dict[str, float]:
        topic = bench.topic(100, 8, "none")
        frame = events(bench, connector, topic, typed and connector == OURS)
        counts = frame.where("likes >= 10").groupBy("tag").count()
        found: list[Any] = []
        seconds = timed(lambda: found.extend(counts.collect()))
        if len(found) != len(spark_data.TAGS):
            raise RuntimeError(f"{len(found)} tags were counted instead of {len(spark_data.TAGS)}")
        return {name: bench.scale.rows(100) / seconds / 1e6}

    return Experiment((Figure(name, target=3),), measure)


def events(bench: Bench, connector: str, topic: str, typed: bool) -> DataFrame:
    from pyspark.sql.functions import col, from_json

    if typed:
        options = {"valueFormat": "json", "valueSchema": spark_data.SCHEMA}
        return bench.read(connector, topic, **options).select("value.*")
    value = from_json(col("value").cast("string"), spark_data.SCHEMA)
    return bench.read(connector, topic).select(value.alias("value")).select("value.*")


def takes_option(options: dict[str, str]) -> bool:
    from ottla.spark.options import OptionError
    from ottla.spark.source.source_options import parse_options

    try:
        parse_options({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", **options})
    except OptionError:
        return False
    return True


# Writing


def writing(size: int, target: float | None) -> Experiment:
    name = f"write, {size} B, 8 partitions by key"

    def measure(bench: Bench, connector: str) -> dict[str, float]:
        # A save begins with work that no row costs; with few rows it would be a good part of the time.
        rows = 4 * bench.scale.rows(size)
        frame = made_rows(bench.spark.range(0, rows, 1, 4), "id", size)
        with bench.empty_topic(8) as topic:
            options = {"kafka.bootstrap.servers": bench.servers, "topic": topic}
            seconds = timed(lambda: frame.write.format(connector).mode("append").options(**options).save())
        return {name: rows / seconds / 1e6}

    return Experiment((Figure(name, target=target),), measure)


def made_rows(frame: DataFrame, number: str, size: int) -> DataFrame:
    value = f"concat(lpad(CAST({number} AS STRING), 20, '0'), repeat('x', {size - 20})) AS value"
    return frame.selectExpr(f"CAST({number} AS STRING) AS key", value)


def writing_exactly_once() -> Experiment:
    name = "write exactly once, 100 B, a stream (beside at least once)"

    def measure(bench: Bench, connector: str) -> dict[str, float]:
        rows = bench.scale.rows(100)
        stream = (
            bench.spark.readStream.format("rate-micro-batch")
            .options(rowsPerBatch=str(rows), numPartitions="4")
            .load()
        )
        delivery = {"ottla.delivery": "exactly-once"} if connector == OURS else {}
        with bench.empty_topic(8) as topic, temporary_directory() as checkpoint:
            options = {"kafka.bootstrap.servers": bench.servers, "topic": topic, **delivery}
            writer = made_rows(stream, "value", 100).writeStream.format(connector).options(**options)
            query = writer.option("checkpointLocation", checkpoint).trigger(once=True).start()
            query.awaitTermination()
            batches = [each for each in query.recentProgress if each.numInputRows]
        milliseconds = sum(each.durationMs["triggerExecution"] for each in batches)
        return {name: sum(each.numInputRows for each in batches) / milliseconds / 1e3}

    def missing() -> str | None:
        from ottla.spark.options import OptionError
        from ottla.spark.sink.sink_options import parse_sink_options

        try:
            parse_sink_options(
                {"kafka.bootstrap.servers": "localhost:9092", "ottla.delivery": "exactly-once"}
            )
        except OptionError as error:
            return str(error)
        return None

    return Experiment((Figure(name, target=1),), measure, missing)


# Small batches


def small_batches() -> Experiment:
    median = Figure("small batches, median", "ms", "lower", 1)
    late = Figure("small batches, p90", "ms", "lower")

    def measure(bench: Bench, connector: str) -> dict[str, float]:
        with bench.empty_topic(2) as topic, temporary_directory() as checkpoint:
            options = {"kafka.bootstrap.servers": bench.servers, "subscribe": topic}
            stream = bench.spark.readStream.format(connector).options(**options).load()
            writer = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
            with trickle(bench.servers, topic):
                query = writer.start()
                times = batch_times(query, bench.scale.small_batches)
                query.stop()
        return {median.name: percentile(times, 50), late.name: percentile(times, 90)}

    return Experiment((median, late), measure)


def batch_times(query: StreamingQuery, wanted: int, seconds: float = 120) -> list[int]:
    """Milliseconds of micro-batches with rows, after the first ones, which compile and connect."""
    deadline = time.monotonic() + seconds
    while True:
        batches = [each for each in query.recentProgress if each.numInputRows]
        if len(batches) >= wanted + WARM_UP_BATCHES:
            return [each.durationMs["triggerExecution"] for each in batches[WARM_UP_BATCHES:]]
        if time.monotonic() > deadline:
            raise RuntimeError(f"only {len(batches)} micro-batches in {seconds:g} seconds")
        time.sleep(1)


@contextmanager
def trickle(servers: str, topic: str) -> Iterator[None]:
    """Twenty rows now and then, in a thread beside the query."""
    stopped = threading.Event()
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})

    def run() -> None:
        while not stopped.wait(0.02):
            for number in range(20):
                producer.produce(topic, b"x" * 100, partition=number % 2)
            producer.poll(0)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
        producer.flush(10)


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@contextmanager
def temporary_directory() -> Iterator[str]:
    path = tempfile.mkdtemp(prefix="ottla-bench-spark-")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
