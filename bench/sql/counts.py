"""A windowed count in SQL, in DataFrames, and by Kafka Streams: of the same input, exactly once, on one core each."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.peers.apache_kafka import application_classpath, java
from bench.sql.measuring import PARTITIONS, Bench, Row, named, rows_per_second

APP = Path(__file__).parent / "java" / "StreamsCount.java"
KEYS = 1000
#: Milliseconds of event time between two events: a window has a few of each key.
_STEP_MS = 5
_WINDOW = "1 minute"


class Counts:
    """The input is written once; each counts it from its beginning."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._topic = named("events")
        self._stream = self._topic.upper()
        bench.sql().execute(
            f"CREATE STREAM {self._topic} (id BIGINT KEY, who STRING) "
            f"WITH (kafka_topic='{self._topic}', partitions={PARTITIONS});"
        )
        # Not older than retention allows for the windows of the result.
        ago = bench.scale.events * _STEP_MS
        timestamp = f"timestamp_millis(unix_millis(current_timestamp()) - {ago} + id * {_STEP_MS})"
        value = f"concat('{{\"WHO\":\"user-', id * 7919 % {KEYS}, '\"}}')"
        bench.write(self._topic, bench.scale.events, "CAST(id AS STRING)", value, timestamp)

    def by_sql(self) -> float:
        sql = self._bench.sql("available-now")
        sql.execute(f"SET 'ottla.max.offsets.per.trigger' = '{self._bench.scale.events_per_batch}';")
        target = named("counted")
        created = sql.execute(
            f"CREATE TABLE {target} AS SELECT who, COUNT(*) AS n FROM {self._topic} "
            "WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY who;"
        )
        query = created[-1].query
        assert query is not None
        query.awaitTermination()
        found = rows_per_second(query)
        sql.stop()
        return found

    def by_frames(self) -> float:
        """As somebody would write it by hand: `read_topic`, `groupBy`, `to_topic`."""
        from pyspark.sql import functions as F

        from ottla.spark import json, read_topic, to_topic

        bench = self._bench
        events = read_topic(
            bench.spark,
            self._topic,
            value=json("WHO STRING"),
            bootstrap_servers=bench.bootstrap_servers,
            options={
                "maxOffsetsPerTrigger": str(bench.scale.events_per_batch),
                "kafka.isolation.level": "read_committed",
            },
        )
        counts = (
            events.select(F.col("value.WHO").alias("who"), "timestamp")
            .withWatermark("timestamp", "1 day")
            .groupBy(F.window("timestamp", _WINDOW), "who")
            .agg(F.count("*").alias("N"))
            .selectExpr("concat(who, unix_millis(window.start)) AS key", "N")
        )
        query = to_topic(
            counts,
            named("framed"),
            bootstrap_servers=bench.bootstrap_servers,
            checkpoint=tempfile.mkdtemp(dir=bench.directory),
            trigger="available-now",
            output_mode="update",
        )
        assert query is not None
        query.awaitTermination()
        return rows_per_second(query)

    def by_streams(self) -> float:
        """Records a second between the first one that it reads and the last."""
        state = tempfile.mkdtemp(dir=self._bench.directory)
        target = named("streamed")
        self._bench.sql().execute(
            f"CREATE STREAM {target} (k BYTES KEY) WITH (kafka_topic='{target}', partitions={PARTITIONS});"
        )
        command = [java(), "-Xmx1g", "-XX:+UseSerialGC", "-cp", application_classpath(), str(APP)]
        arguments = [
            self._bench.bootstrap_servers, state, self._topic, target, str(self._bench.scale.events)
        ]  # fmt: skip
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=3600)
        shutil.rmtree(state, ignore_errors=True)
        lines = [line for line in done.stdout.splitlines() if line.startswith("rows/s ")]
        if not lines:
            raise RuntimeError(f"Kafka Streams did not count: {(done.stderr or done.stdout)[-500:]}")
        return float(lines[-1].split()[1])


def counts(bench: Bench) -> list[Row]:
    counted = Counts(bench)
    counted.by_sql()  # warms up
    sql = max(counted.by_sql() for _ in range(2))
    frames = max(counted.by_frames() for _ in range(2))
    streams = max(counted.by_streams() for _ in range(2))
    name = f"windowed count, {bench.scale.events:,} events"
    return [
        Row(name, "rows/s", sql, frames, "DataFrames", 0.9, at_least=True),
        Row(name, "rows/s", sql, streams, "Kafka Streams 4.3", 1.0, at_least=True),
    ]
