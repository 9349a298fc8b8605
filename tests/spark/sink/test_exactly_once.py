"""Promise: under read_committed no batch of a stream is lost, duplicated or partially visible, whatever is repeated."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from ottla.client.cluster import Cluster
from ottla.client.settings import Settings
from ottla.spark.checkpoints import query_of, remove
from ottla.spark.sink.exactly_once.commit_topic_removal import examine
from ottla.testing import Broker
from tests.spark.consuming import consume
from tests.spark.crashing import POINTS, CrashingDataSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UPPER = ("key", "upper(CAST(value AS STRING)) AS value")


class Pipeline:
    """Source topic to sink topic, with one checkpoint."""

    def __init__(self, spark: SparkSession, broker: Broker, checkpoint: str, **options: str) -> None:
        self._spark = spark
        self._broker = broker
        self._name = f"once-{random.randrange(10**9)}"
        self._options = {name.replace("__", "."): value for name, value in options.items()}
        self.checkpoint = Path(checkpoint)
        broker.create_topic(f"{self._name}-in", partitions=2)
        broker.create_topic(self._name, partitions=3)

    def feed(self, first: int, last: int) -> None:
        for number in range(first, last):
            self._broker.produce(
                f"{self._name}-in", b"v%d" % number, key=b"%d" % number, partition=number % 2
            )

    def source(self) -> DataFrame:
        options = {"subscribe": f"{self._name}-in", "startingOffsets": "earliest"}
        servers = {"kafka.bootstrap.servers": self._broker.bootstrap_servers}
        return self._spark.readStream.format("ottla").options(**servers, **options).load()

    def run(self, frame: DataFrame | None = None, mode: str = "append", **options: str) -> None:
        query = (
            (self.source().selectExpr(*UPPER) if frame is None else frame)
            .writeStream.format("ottla")
            .outputMode(mode)
            .option("kafka.bootstrap.servers", self._broker.bootstrap_servers)
            .options(topic=self._name, checkpointLocation=str(self.checkpoint), **self._options, **options)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    def forget_last_commit(self) -> int:
        """Simulate a driver that died after Kafka's commit and before the checkpoint's."""
        commits = [each for each in (self.checkpoint / "commits").iterdir() if each.name.isdigit()]
        last = max(commits, key=lambda each: int(each.name))
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
        return int(last.name)

    def written(self, isolation: str = "read_committed") -> Counter[bytes]:
        found = consume(self._broker.bootstrap_servers, self._name, isolation=isolation)
        return Counter(message.value() for message in found)


def expected(last: int) -> Counter[bytes]:
    return Counter(b"V%d" % number for number in range(last))


def test_a_batch_that_spark_replays_is_not_written_again(
    spark: SparkSession, ottla_broker: Broker, checkpoint: str
) -> None:
    pipeline = Pipeline(spark, ottla_broker, checkpoint)
    for last in (40, 80):
        pipeline.feed(last - 40, last)
        pipeline.run()
        for _ in range(2):
            pipeline.forget_last_commit()
            pipeline.run()
            assert pipeline.written() == expected(last)
    assert pipeline.written("read_uncommitted") == expected(80)


def test_the_commit_log_says_where_the_checkpoint_is(
    spark: SparkSession, ottla_broker: Broker, checkpoint: str
) -> None:
    """The checkpoint's path shows whether anything still needs the log."""
    pipeline = Pipeline(spark, ottla_broker, checkpoint)
    pipeline.feed(0, 4)
    pipeline.run()
    query = query_of(pipeline.checkpoint)
    settings = Settings.from_properties({"bootstrap.servers": ottla_broker.bootstrap_servers})
    with closing(Cluster(settings)) as cluster:
        [kept] = [each for each in examine(cluster) if each.query == query]
        assert (kept.removable, kept.reason) == (False, f"its query can go on from {pipeline.checkpoint}")
        assert remove(pipeline.checkpoint) == [query]
        [gone] = [each for each in examine(cluster) if each.query == query]
        assert gone.removable


def test_a_replayed_batch_keeps_the_state_of_a_window(
    spark: SparkSession, ottla_broker: Broker, checkpoint: str
) -> None:
    """A replay discards the batch's rows, but keeps their effect on the state."""
    pipeline = Pipeline(spark, ottla_broker, checkpoint)

    def counts() -> DataFrame:
        parity = "CAST(CAST(CAST(key AS STRING) AS INT) % 2 AS STRING) AS key"
        by_parity = pipeline.source().selectExpr(parity).groupBy("key")
        return by_parity.count().selectExpr("key", "concat(key, ':', count) AS value")

    for last in (20, 40, 60):
        pipeline.feed(last - 20, last)
        pipeline.run(counts(), "complete")
        pipeline.forget_last_commit()
    pipeline.run(counts(), "complete")
    assert pipeline.written() == Counter(b"%d:%d" % (key, n) for key in (0, 1) for n in (10, 20, 30))


@pytest.fixture
def crashing(spark: SparkSession) -> Iterator[None]:
    from ottla.spark.data_source import OttlaDataSource

    spark.dataSource.register(CrashingDataSource)
    yield
    spark.dataSource.register(OttlaDataSource)


@pytest.mark.usefixtures("crashing")
@pytest.mark.parametrize("point", POINTS)
def test_a_batch_whose_process_dies_on_the_way_is_right_after_a_restart(
    spark: SparkSession, ottla_broker: Broker, checkpoint: str, point: str
) -> None:
    """The process dies without cleanup. test_driver_crashes kills the whole driver."""
    pipeline = Pipeline(spark, ottla_broker, checkpoint)
    pipeline.feed(0, 20)
    pipeline.run()
    pipeline.feed(20, 40)
    with pytest.raises(Exception, match="STREAM_FAILED"):
        pipeline.run(crash=point)
    assert max(pipeline.written().values()) == 1
    pipeline.feed(40, 60)
    pipeline.run()
    assert pipeline.written() == expected(60)


def test_at_least_once_is_an_option(spark: SparkSession, ottla_broker: Broker, checkpoint: str) -> None:
    pipeline = Pipeline(spark, ottla_broker, checkpoint, ottla__delivery="at-least-once")
    pipeline.feed(0, 20)
    pipeline.run()
    pipeline.forget_last_commit()
    pipeline.run()
    assert pipeline.written() == expected(20) + expected(20)


def test_a_checkpoint_that_was_set_back_is_refused(
    spark: SparkSession, ottla_broker: Broker, checkpoint: str
) -> None:
    pipeline = Pipeline(spark, ottla_broker, checkpoint)
    for last in (10, 20, 30):
        pipeline.feed(last - 10, last)
        pipeline.run()
    last = pipeline.forget_last_commit()
    for part in ("offsets", "commits"):
        for number in (last, last - 1):
            (pipeline.checkpoint / part / str(number)).unlink(missing_ok=True)
            (pipeline.checkpoint / part / f".{number}.crc").unlink(missing_ok=True)
    with pytest.raises(Exception, match=r"is at batch 1, but batch 2 has been committed"):
        pipeline.run()


def save(frame: DataFrame, broker: Broker, topic: str, **options: str) -> None:
    frame.write.format("ottla").mode("append").option(
        "kafka.bootstrap.servers", broker.bootstrap_servers
    ).options(topic=topic, **{"ottla.delivery": "exactly-once"}, **options).save()


def test_a_save_is_visible_only_if_all_of_it_succeeded(spark: SparkSession, ottla_broker: Broker) -> None:
    topic = f"save-{random.randrange(10**9)}"
    ottla_broker.create_topic(topic, partitions=3)
    save(spark.range(100, numPartitions=4).selectExpr("CAST(id AS STRING) AS value"), ottla_broker, topic)
    broken = spark.range(1000, 1100, numPartitions=4).selectExpr(
        "CAST(id AS STRING) AS value", "IF(id = 1099, 7, 0) AS partition"
    )
    with pytest.raises(Exception, match="A row names partition 7"):
        save(broken, ottla_broker, topic)
    found = consume(ottla_broker.bootstrap_servers, topic)
    assert sorted(int(message.value()) for message in found) == list(range(100))
    # No open transaction remains for readers to wait for.
    save(spark.range(100, 110).selectExpr("CAST(id AS STRING) AS value"), ottla_broker, topic)
    found = consume(ottla_broker.bootstrap_servers, topic)
    assert sorted(int(message.value()) for message in found) == list(range(110))


def test_a_column_decides_the_partition(spark: SparkSession, ottla_broker: Broker) -> None:
    topic = f"column-{random.randrange(10**9)}"
    ottla_broker.create_topic(topic, partitions=3)
    frame = spark.range(60).selectExpr(
        "CAST(id AS STRING) AS key", "'x' AS value", "CAST(id % 5 AS STRING) AS user"
    )
    save(frame, ottla_broker, topic, partitionColumn="user")
    places: dict[int, set[int]] = {}
    for message in consume(ottla_broker.bootstrap_servers, topic):
        places.setdefault(int(message.key()) % 5, set()).add(message.partition())
    twin = f"{topic}-twin"
    ottla_broker.create_topic(twin, partitions=3)
    save(spark.range(5).selectExpr("CAST(id AS STRING) AS key", "'x' AS value"), ottla_broker, twin)
    by_key = {int(m.key()): {m.partition()} for m in consume(ottla_broker.bootstrap_servers, twin)}
    assert places == by_key
