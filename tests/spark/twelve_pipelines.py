"""Twelve typical pipelines, each a function of its way to the topics.

Their results must not depend on the data source or the broker.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START = 1_700_000_000_000
EVENT = "id INT, tag STRING, likes INT, at TIMESTAMP"
BATCH = 120
PARTITIONS = 2


def create_topics(servers: str, names: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    # The records are from 2023, and must not expire.
    topics = [NewTopic(name, PARTITIONS, 1, config={"retention.ms": "-1"}) for name in names]
    for created in admin.create_topics(topics).values():
        created.result(30)


def fill(servers: str, prefix: str) -> None:
    """Write the same records to the same positions of any broker."""
    create_topics(servers, [f"{prefix}-{name}" for name in ("mixed", "codecs", "events", "clicks")])
    _produce(servers, f"{prefix}-mixed", _mixed())
    for codec in CODECS:
        records = [{"value": f"{codec} {number} " + "x" * (number % 50)} for number in range(200)]
        _produce(servers, f"{prefix}-codecs", records, codec)
    _produce(servers, f"{prefix}-events", _events(600))
    _produce(servers, f"{prefix}-clicks", _clicks(600))


def _mixed() -> list[dict[str, Any]]:
    """Return keys, values and headers that are set, empty or null."""
    headers = [None, [("a", b"1"), ("a", None), ("b", b"")], [("ü", b"\xff\x00")]]
    return [
        {
            "key": (None, b"", b"key-%d" % number)[number % 3],
            "value": (b"value-%d" % number, None, b"", b"\x00\xff")[number % 4],
            "headers": headers[number % 5 % 3],
        }
        for number in range(200)
    ]


def _events(count: int) -> list[dict[str, Any]]:
    """Return JSON with increasing times, some of them late and some repeated."""
    chance = random.Random(7)
    records = []
    for number in range(count):
        late = 300 if chance.random() < 0.05 else chance.randrange(20)
        event = {
            "id": number - (chance.random() < 0.1),
            "tag": chance.choice(["spark", "kafka", "prague", "law"]),
            "likes": chance.randrange(30),
            "at": f"{_clock(number - late)}Z",
        }
        value = "{broken" if number % 97 == 96 else json.dumps(event)
        records.append({"key": event["tag"].encode(), "value": value})
    return records


def _clicks(count: int) -> list[dict[str, Any]]:
    chance = random.Random(8)
    return [
        {
            "value": json.dumps(
                {"id": chance.randrange(count), "at": f"{_clock(number + chance.randrange(10))}Z"}
            )
        }
        for number in range(count)
    ]


def _clock(seconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(START / 1000 + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _produce(servers: str, topic: str, records: list[dict[str, Any]], codec: str = "none") -> None:
    producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 20})
    for number, record in enumerate(records):
        producer.produce(topic, partition=number % PARTITIONS, timestamp=START + 1000 * number, **record)
    assert producer.flush(30) == 0


@dataclass(frozen=True)
class Way:
    """Access to the topics of one broker through one data source."""

    spark: SparkSession
    format: str
    servers: str
    prefix: str
    directory: Path

    def read(self, topic: str, **options: Any) -> DataFrame:
        return self.spark.read.format(self.format).options(**self._reading(topic, options)).load()

    def stream(self, topic: str, **options: Any) -> DataFrame:
        given = self._reading(
            topic, {"startingOffsets": "earliest", "maxOffsetsPerTrigger": BATCH, **options}
        )
        return self.spark.readStream.format(self.format).options(**given).load()

    def name(self, topic: str) -> str:
        return f"{self.prefix}-{topic}"

    def run(self, stream: DataFrame) -> list[dict[str, Any]]:
        """Process all available records into a table, and return the progress of each micro-batch."""
        return self._run(stream.writeStream.format("memory").queryName(f"t{uuid.uuid4().hex}"))

    def table(self, stream: DataFrame) -> list[Any]:
        name = f"t{uuid.uuid4().hex}"
        self._run(stream.writeStream.format("memory").queryName(name))
        rows = self.spark.table(name).collect()
        self.spark.catalog.dropTempView(name)
        return rows

    def write(self, frame: DataFrame, topic: str) -> None:
        frame.write.format(self.format).mode("append").options(**self._writing(topic)).save()

    def write_stream(self, stream: DataFrame, topic: str) -> None:
        self._run(stream.writeStream.format(self.format).options(**self._writing(topic)))

    def _reading(self, topic: str, options: dict[str, Any]) -> dict[str, str]:
        given = {"kafka.bootstrap.servers": self.servers, "subscribe": self.name(topic), **options}
        return {name: str(value) for name, value in given.items()}

    def _writing(self, topic: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.servers, "topic": self.name(topic)}

    def _run(self, writer: Any) -> list[dict[str, Any]]:
        writer = writer.option("checkpointLocation", str(self.directory / uuid.uuid4().hex))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120), "the query did not come to its end"
        return [json.loads(progress.json) for progress in query.recentProgress]


def parsed(frame: DataFrame) -> DataFrame:
    from pyspark.sql.functions import col, from_json

    return frame.select(from_json(col("value").cast("string"), EVENT).alias("event")).select("event.*")


# The pipelines


def every_column_of_a_batch(way: Way) -> list[Any]:
    return way.read("mixed").collect()


def a_range_of_offsets_and_one_of_time(way: Way) -> list[Any]:
    topic = way.name("mixed")
    start, end = {topic: {"0": 7, "1": -2}}, {topic: {"0": 31, "1": 90}}
    offsets = way.read("mixed", startingOffsets=json.dumps(start), endingOffsets=json.dumps(end))
    times = way.read("mixed", startingTimestamp=START + 50_500, endingTimestamp=START + 80_000)
    return offsets.collect() + times.collect()


def headers_with_everything_in_them(way: Way) -> list[Any]:
    return way.read("mixed", includeHeaders=True).select("partition", "offset", "headers").collect()


def every_codec(way: Way) -> list[Any]:
    return way.read("codecs").selectExpr("partition", "offset", "CAST(value AS STRING)").collect()


def filtered_and_projected(way: Way) -> list[Any]:
    rows = way.read("events").where("partition = 1 AND offset % 3 = 0 AND key <> 'law'")
    return rows.selectExpr("CAST(key AS STRING) AS tag", "length(value) AS size", "timestamp").collect()


def json_counted_by_tag(way: Way) -> list[Any]:
    rows = parsed(way.read("events")).where("likes > 10")
    return rows.groupBy("tag").agg({"id": "count", "likes": "sum", "at": "max"}).collect()


def counts_in_tumbling_windows(way: Way) -> list[Any]:
    from pyspark.sql.functions import window

    events = parsed(way.stream("events")).withWatermark("at", "30 seconds")
    return way.table(events.groupBy(window("at", "1 minute"), "tag").count())


def sums_in_sliding_windows(way: Way) -> list[Any]:
    from pyspark.sql.functions import window

    events = parsed(way.stream("events")).withWatermark("at", "30 seconds")
    return way.table(events.groupBy(window("at", "1 minute", "20 seconds")).sum("likes"))


def two_streams_joined(way: Way) -> list[Any]:
    events = parsed(way.stream("events")).withWatermark("at", "30 seconds").alias("event")
    clicks = parsed(way.stream("clicks")).select("id", "at").withWatermark("at", "30 seconds").alias("click")
    near = "event.id = click.id AND click.at BETWEEN event.at - INTERVAL 5 MINUTES AND event.at + INTERVAL 5 MINUTES"
    from pyspark.sql.functions import expr

    return way.table(events.join(clicks, expr(near)).select("event.id", "event.tag", "click.at"))


def duplicates_dropped(way: Way) -> list[Any]:
    events = parsed(way.stream("events")).withWatermark("at", "1 minute")
    return way.table(events.dropDuplicatesWithinWatermark(["id"]).select("id"))


def batches_of_limited_size(way: Way) -> list[Any]:
    batches = way.run(way.stream("events", maxOffsetsPerTrigger=77))
    return [
        (batch["batchId"], batch["numInputRows"], source["startOffset"], source["endOffset"])
        for batch in batches
        for source in batch["sources"]
    ]


def written_and_read_back(way: Way) -> list[Any]:
    """By key and by a column, in batch and in a stream."""
    target = f"{way.format}-copy"
    create_topics(way.servers, [way.name(target)])
    rows = way.read("mixed", includeHeaders=True).where("key IS NOT NULL")
    way.write(rows.select("key", "value", "headers"), target)
    by_column = way.stream("mixed", includeHeaders=True)
    way.write_stream(by_column.selectExpr("key", "value", "headers", "1 - partition AS partition"), target)
    copy = way.read(target, includeHeaders=True, **{"kafka.isolation.level": "read_committed"})
    return copy.select("key", "value", "headers", "partition", "timestampType").collect()


PIPELINES: list[Callable[[Way], list[Any]]] = [
    every_column_of_a_batch,
    a_range_of_offsets_and_one_of_time,
    headers_with_everything_in_them,
    every_codec,
    filtered_and_projected,
    json_counted_by_tag,
    counts_in_tumbling_windows,
    sums_in_sliding_windows,
    two_streams_joined,
    duplicates_dropped,
    batches_of_limited_size,
    written_and_read_back,
]
