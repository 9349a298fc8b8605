"""Promise: each error is one clear sentence in Spark's exception, and skipped records are reported."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from ottla.testing import Broker
from tests.spark_fixtures import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOBODY = "127.0.0.1:1"
UNREACHABLE = rf"Cannot reach a broker at {NOBODY}: is it running\? \(.*\)"
IMPATIENT = {"kafka.default.api.timeout.ms": "300"}


def expect_sentence(sentence: str, run: Any) -> None:
    """Check the last line of Python's traceback: the error's name and one sentence."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as raised:
        run()
    lines = re.findall(r"^ottla\.[\w.]+: (.*)$", str(raised.value), re.MULTILINE)
    assert lines, str(raised.value)
    assert re.fullmatch(sentence, lines[-1]), lines[-1]


def run(stream: DataFrame, checkpoint: str) -> list[str]:
    """Process all available records through a stream."""
    values: list[str] = []

    def keep(rows: DataFrame, number: int) -> None:
        values.extend(sorted(bytes(row.value).decode() for row in rows.collect()))

    writer = stream.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    return values


def write(frame: DataFrame, servers: str, topic: str) -> None:
    options = {"kafka.bootstrap.servers": servers, "topic": topic}
    limits = {"kafka.max.block.ms": "300", "kafka.delivery.timeout.ms": "1000"}
    frame.write.format("ottla").mode("append").options(**options, **limits).save()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    config = {"auto.create.topics.enable": "false", "log.retention.check.interval.ms": "100"}
    with Broker(config=config) as broker:
        broker.create_topic("t")
        yield broker


@pytest.fixture
def reader(spark: SparkSession, broker: Broker) -> Source:
    return Source(spark, broker.bootstrap_servers)


def test_a_topic_that_is_missing(
    reader: Source, spark: SparkSession, broker: Broker, checkpoint: str
) -> None:
    sentence = rf"Topic 'nowhere' does not exist at {broker.bootstrap_servers}\."
    expect_sentence(sentence, lambda: reader.batch(subscribe="nowhere").collect())
    expect_sentence(sentence, lambda: run(reader.stream(subscribe="nowhere"), checkpoint))
    rows = spark.range(3).selectExpr("'x' AS value")
    expect_sentence(
        r"Topic 'nowhere' does not exist.*\.", lambda: write(rows, broker.bootstrap_servers, "nowhere")
    )


def test_a_broker_that_nobody_reaches(spark: SparkSession, checkpoint: str) -> None:
    nobody = Source(spark, NOBODY)
    expect_sentence(UNREACHABLE, lambda: nobody.batch(subscribe="t", **IMPATIENT).collect())
    expect_sentence(UNREACHABLE, lambda: run(nobody.stream(subscribe="t", **IMPATIENT), checkpoint))
    rows = spark.range(3).selectExpr("'x' AS value")
    expect_sentence(UNREACHABLE, lambda: write(rows, NOBODY, "t"))


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (["id AS value"], r"Column 'value' must be string or binary, not bigint.*\."),
        (["'x' AS text"], r"There is no column 'value' to write.*\."),
        (["'x' AS value", "id AS key"], r"Column 'key' must be string or binary, not bigint.*\."),
        (["'x' AS value", "'0' AS partition"], r"Column 'partition' must be int, not string.*\."),
        (
            ["'x' AS value", "map('a', 'b') AS headers"],
            r"Column 'headers' must be .*, not map<string,string>.*\.",
        ),
    ],
)
def test_columns_that_cannot_be_written(
    spark: SparkSession, broker: Broker, columns: list[str], sentence: str
) -> None:
    expect_sentence(
        sentence, lambda: write(spark.range(3).selectExpr(*columns), broker.bootstrap_servers, "t")
    )


def test_columns_that_a_stream_cannot_write(broker: Broker, reader: Source, checkpoint: str) -> None:
    stream = reader.stream(subscribe="t", startingOffsets="earliest").selectExpr("offset AS value")
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "t"}
    writer = stream.writeStream.format("ottla").options(**options, checkpointLocation=checkpoint)
    expect_sentence(
        r"Column 'value' must be string or binary, not bigint.*\.",
        lambda: writer.trigger(availableNow=True).start().awaitTermination(),
    )


def test_no_java_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    from ottla.jvm import java
    from ottla.spark import session

    monkeypatch.setattr(java, "_candidates", lambda environment: iter(()))
    monkeypatch.setattr(java, "_wheel", lambda: None)
    with pytest.raises(java.NoJava, match=r"^Spark needs Java 17 or newer and none was found: .*\.$"):
        session("no-java", master="local[1]")


class Retained:
    """A topic from which a query read ten records before retention deleted those and ten more."""

    def __init__(self, reader: Source, broker: Broker, topic: str, checkpoint: str) -> None:
        self.topic = topic
        self._broker = broker
        broker.create_topic(topic, config={"retention.ms": "-1"})
        self._produce(0, 10, timestamp=1_600_000_000_000)
        assert len(run(reader.stream(subscribe=topic, startingOffsets="earliest"), checkpoint)) == 10
        self._produce(10, 20, timestamp=1_600_000_000_000)
        self._retain()
        self._produce(20, 23, timestamp=int(time.time() * 1000))

    def _produce(self, first: int, last: int, timestamp: int) -> None:
        for number in range(first, last):
            self._broker.produce(self.topic, b"%d" % number, timestamp=timestamp)

    def _retain(self) -> None:
        servers = {"bootstrap.servers": self._broker.bootstrap_servers}
        entry = ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.topic, incremental_configs=[entry])
        admin = AdminClient(servers)  # must outlive its futures
        admin.incremental_alter_configs([resource])[resource].result(10)
        consumer = Consumer({**servers, "group.id": "watch"})
        deadline = time.monotonic() + 30
        while consumer.get_watermark_offsets(TopicPartition(self.topic, 0), timeout=10)[0] < 20:
            assert time.monotonic() < deadline, "retention took nothing"
            time.sleep(0.05)
        consumer.close()


LOST = (
    "Offsets 10 to 19 of {topic}-0 cannot be read: the partition starts at 20. Some data may have been missed"
)


def test_what_retention_took_ends_a_stream(reader: Source, broker: Broker, checkpoint: str) -> None:
    retained = Retained(reader, broker, "kept-short", checkpoint)
    sentence = re.escape(LOST.format(topic=retained.topic))
    sentence += "; with failOnDataLoss=false the query continues with the remaining records\\."
    expect_sentence(sentence, lambda: run(reader.stream(subscribe=retained.topic), checkpoint))


def test_what_retention_took_ends_a_batch_that_asks_for_it(reader: Source, broker: Broker) -> None:
    broker.create_topic("cut")
    for number in range(5):
        broker.produce("cut", b"%d" % number)
    partition = TopicPartition("cut", 0, 3)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_records([partition])[partition].result(10)
    asked = {"subscribe": "cut", "startingOffsets": '{"cut": {"0": 1}}'}
    expect_sentence(
        r"Offset 1 of cut-0 is not there: it starts at 3\. Some data may have been missed; "
        r"with failOnDataLoss=false the query continues with the remaining records\.",
        lambda: reader.batch(**asked).collect(),
    )
    assert reader.values(**asked, failOnDataLoss=False) == ["3", "4"]


GO_ON = """
from ottla.spark import session
spark = session(master="local[1]")
options = {{"kafka.bootstrap.servers": "{servers}", "subscribe": "{topic}", "failOnDataLoss": "false"}}
stream = spark.readStream.format("ottla").options(**options).load()
writer = stream.writeStream.foreachBatch(lambda rows, number: print("rows:", rows.count()))
writer.option("checkpointLocation", "{checkpoint}").trigger(availableNow=True).start().awaitTermination()
spark.stop()
"""


def test_or_a_stream_goes_on_and_says_what_it_skipped(
    reader: Source, broker: Broker, checkpoint: str
) -> None:
    """Runs in its own process, because workers log to the JVM's output."""
    retained = Retained(reader, broker, "passed-over", checkpoint)
    script = GO_ON.format(servers=broker.bootstrap_servers, topic=retained.topic, checkpoint=checkpoint)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["rows:", "3"]
    assert LOST.format(topic=retained.topic) in done.stderr
