"""Promise: a stream reads every record once, across restarts and changes of topics and partitions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from ottla.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

    from tests.spark_fixtures import Source


class Batches:
    """A sink that keeps the rows of each micro-batch.

    Spark repeats a batch if the query stopped before marking it as done; the repetition must be identical.
    """

    def __init__(self) -> None:
        self._by_number: dict[int, list[str]] = {}
        self.failure = ""

    def __call__(self, rows: DataFrame, number: int) -> None:
        values = sorted(bytes(row.value).decode() for row in rows.select("value").collect())
        if self._by_number.setdefault(number, values) != values:
            self.failure = f"batch {number} was {self._by_number[number]} and is now {values}"

    @property
    def batches(self) -> list[list[str]]:
        assert not self.failure, self.failure
        return [self._by_number[number] for number in sorted(self._by_number)]

    @property
    def values(self) -> list[str]:
        return sorted(value for batch in self.batches for value in batch)

    def start(self, stream: DataFrame, checkpoint: str, **trigger: Any) -> StreamingQuery:
        writer = stream.writeStream.foreachBatch(self).option("checkpointLocation", checkpoint)
        return writer.trigger(**trigger or {"processingTime": "0 seconds"}).start()

    def run(self, stream: DataFrame, checkpoint: str) -> None:
        """Process exactly the records available now."""
        self.start(stream, checkpoint, availableNow=True).awaitTermination()


@pytest.fixture
def sink() -> Batches:
    return Batches()


def produce(broker: Broker, topic: str, first: int, last: int, partition: int = 0) -> None:
    for number in range(first, last):
        broker.produce(topic, b"%03d" % number, partition=partition)


def numbers(first: int, last: int) -> list[str]:
    return [f"{number:03}" for number in range(first, last)]


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def test_available_now_reads_all_and_the_next_run_what_is_new(
    source: Source, ottla_broker: Broker, ottla_topic: str, checkpoint: str, sink: Batches
) -> None:
    produce(ottla_broker, ottla_topic, 0, 5)
    stream = source.stream(subscribe=ottla_topic, startingOffsets="earliest")
    sink.run(stream, checkpoint)
    assert sink.batches == [numbers(0, 5)]
    produce(ottla_broker, ottla_topic, 5, 8)
    sink.run(stream, checkpoint)
    sink.run(stream, checkpoint)
    assert sink.batches == [numbers(0, 5), numbers(5, 8)]


def test_batches_are_as_large_as_they_may_be(
    source: Source, ottla_broker: Broker, ottla_topic: str, checkpoint: str, sink: Batches
) -> None:
    produce(ottla_broker, ottla_topic, 0, 10)
    sink.run(
        source.stream(subscribe=ottla_topic, startingOffsets="earliest", maxOffsetsPerTrigger=4), checkpoint
    )
    assert sink.batches == [numbers(0, 4), numbers(4, 8), numbers(8, 10)]


def test_a_running_query_follows_and_goes_on_after_a_restart(
    source: Source, ottla_broker: Broker, ottla_topic: str, checkpoint: str, sink: Batches
) -> None:
    produce(ottla_broker, ottla_topic, 0, 3)
    stream = source.stream(subscribe=ottla_topic, startingOffsets="earliest")
    for round_ in range(1, 4):
        query = sink.start(stream, checkpoint)
        wait_until(lambda: len(sink.values) >= 3 * round_)  # noqa: B023
        query.stop()
        produce(ottla_broker, ottla_topic, 3 * round_, 3 * round_ + 3)
    sink.run(stream, checkpoint)
    assert sink.values == numbers(0, 12)


def test_a_batch_that_failed_is_read_again_just_as_it_was(
    source: Source, ottla_broker: Broker, ottla_topic: str, checkpoint: str, sink: Batches
) -> None:
    produce(ottla_broker, ottla_topic, 0, 4)
    stream = source.stream(subscribe=ottla_topic, startingOffsets="earliest")

    def fail(rows: DataFrame, number: int) -> None:
        raise RuntimeError("the sink is full")

    query = stream.writeStream.foreachBatch(fail).option("checkpointLocation", checkpoint).start()
    with pytest.raises(Exception, match="the sink is full"):
        query.awaitTermination()
    produce(ottla_broker, ottla_topic, 4, 6)
    sink.run(stream, checkpoint)
    assert sink.batches == [numbers(0, 4), numbers(4, 6)]


def test_only_what_is_new_without_starting_offsets(
    source: Source, ottla_broker: Broker, ottla_topic: str, checkpoint: str, sink: Batches
) -> None:
    produce(ottla_broker, ottla_topic, 0, 3)
    query = sink.start(source.stream(subscribe=ottla_topic), checkpoint)
    wait_until(lambda: query.lastProgress is not None)
    produce(ottla_broker, ottla_topic, 3, 5)
    wait_until(lambda: len(sink.values) == 2)
    query.stop()
    assert sink.values == numbers(3, 5)


def test_a_query_that_saw_nothing_remembers_where_it_stood(
    source: Source, ottla_broker: Broker, ottla_topic: str, checkpoint: str, sink: Batches
) -> None:
    produce(ottla_broker, ottla_topic, 0, 3)
    stream = source.stream(subscribe=ottla_topic)
    query = sink.start(stream, checkpoint)
    wait_until(lambda: query.lastProgress is not None)
    query.stop()
    produce(ottla_broker, ottla_topic, 3, 5)
    sink.run(stream, checkpoint)
    assert sink.values == numbers(3, 5)


def test_a_pattern_that_matches_nothing_yet(
    source: Source, ottla_broker: Broker, checkpoint: str, sink: Batches
) -> None:
    query = sink.start(source.stream(subscribePattern="later-.*"), checkpoint)
    wait_until(lambda: query.lastProgress is not None)
    ottla_broker.create_topic("later-a")
    produce(ottla_broker, "later-a", 0, 2)
    wait_until(lambda: len(sink.values) == 2)
    query.stop()


def test_topics_and_partitions_that_appear_are_read(
    source: Source, ottla_broker: Broker, checkpoint: str, sink: Batches
) -> None:
    ottla_broker.create_topic("grow-a")
    produce(ottla_broker, "grow-a", 0, 2)
    stream = source.stream(subscribePattern="grow-.*", startingOffsets="earliest")
    query = sink.start(stream, checkpoint)
    wait_until(lambda: len(sink.values) == 2)
    admin = AdminClient({"bootstrap.servers": ottla_broker.bootstrap_servers})
    admin.create_partitions([NewPartitions("grow-a", 2)])["grow-a"].result(10)
    produce(ottla_broker, "grow-a", 2, 4, partition=1)
    ottla_broker.create_topic("grow-b")
    produce(ottla_broker, "grow-b", 4, 6)
    wait_until(lambda: len(sink.values) == 6)
    query.stop()
    assert sink.values == numbers(0, 6)


def test_a_deleted_topic_ends_the_query_unless_told_otherwise(
    source: Source, ottla_broker: Broker, checkpoint: str, sink: Batches
) -> None:
    for topic in ("stay", "go"):
        ottla_broker.create_topic(topic)
        produce(ottla_broker, topic, 0, 2)
    options = {"subscribe": "stay,go", "startingOffsets": "earliest"}
    sink.run(source.stream(**options), checkpoint)
    ottla_broker.delete_topic("go")
    produce(ottla_broker, "stay", 2, 4)
    with pytest.raises(Exception, match="go-0 no longer exists"):
        sink.run(source.stream(**options), checkpoint)
    sink.run(source.stream(**options, failOnDataLoss=False), checkpoint)
    assert sink.batches[-1] == numbers(2, 4)


def test_the_lag_of_a_query_is_seen_by_the_tools(
    source: Source, ottla_broker: Broker, ottla_topic: str, checkpoint: str, sink: Batches
) -> None:
    produce(ottla_broker, ottla_topic, 0, 7)
    stream = source.stream(
        subscribe=ottla_topic, startingOffsets="earliest", kafka__group__id="lag-of-a-query"
    )
    sink.run(stream, checkpoint)
    consumer = Consumer({"bootstrap.servers": ottla_broker.bootstrap_servers, "group.id": "lag-of-a-query"})
    [committed] = consumer.committed([TopicPartition(ottla_topic, 0)], timeout=20)
    consumer.close()
    assert committed.offset == 7


def test_progress_says_where_the_query_is(
    source: Source, ottla_broker: Broker, ottla_topic: str, checkpoint: str, sink: Batches
) -> None:
    produce(ottla_broker, ottla_topic, 0, 5)
    stream = source.stream(subscribe=ottla_topic, startingOffsets="earliest", maxOffsetsPerTrigger=3)
    query = sink.start(stream, checkpoint, availableNow=True)
    query.awaitTermination()
    first = query.recentProgress[0]["sources"][0]
    assert json.loads(first["endOffset"]) == {ottla_topic: {"0": 3}}
    assert json.loads(first["latestOffset"]) == {ottla_topic: {"0": 5}}
    assert first["numInputRows"] == 3


def test_a_restarted_broker_does_not_end_the_query(
    spark: Any, fresh_ottla_broker: Broker, checkpoint: str, sink: Batches
) -> None:
    from tests.spark_fixtures import Source

    fresh_ottla_broker.create_topic("t")
    produce(fresh_ottla_broker, "t", 0, 2)
    source = Source(spark, fresh_ottla_broker.bootstrap_servers)
    query = sink.start(source.stream(subscribe="t", startingOffsets="earliest"), checkpoint)
    wait_until(lambda: len(sink.values) == 2)
    fresh_ottla_broker.restart()
    produce(fresh_ottla_broker, "t", 2, 4)
    wait_until(lambda: len(sink.values) == 4)
    query.stop()
    assert sink.values == numbers(0, 4)


def test_a_stream_has_no_end(source: Source, ottla_topic: str, checkpoint: str, sink: Batches) -> None:
    stream = source.stream(subscribe=ottla_topic, endingOffsets="latest")
    with pytest.raises(Exception, match="endingOffsets cannot be used in a streaming query"):
        sink.run(stream, checkpoint)
