"""Promise: the topic holds each record of a foreachBatch `write_batch` once, whatever Spark or the machine repeats."""

from __future__ import annotations

import random
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.spark import to_topic
from ottla.spark.checkpoints import query_of
from ottla.spark.options import OptionError
from ottla.spark.sink import batches
from ottla.spark.sink.batches import write_batch
from ottla.spark.sink.exactly_once.commit_topic import CommitTopic
from ottla.testing import Broker
from tests.spark.consuming import consume

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARITY = "CAST(CAST(CAST(key AS STRING) AS INT) % 2 AS STRING) AS key"


class Dies(Exception):
    """Raised in place of the driver's death; no later code runs."""


class Counts:
    """A query in update mode that counts records with even and odd keys."""

    def __init__(self, spark: SparkSession, bootstrap_servers: str, checkpoint: str) -> None:
        self._spark = spark
        self._bootstrap_servers = bootstrap_servers
        self.topic = f"counts-{random.randrange(10**9)}"
        self.checkpoint = Path(checkpoint)
        self.fed = 0
        admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        for made in admin.create_topics(
            [NewTopic(f"{self.topic}-in", 2, 1), NewTopic(self.topic, 3, 1)]
        ).values():
            made.result(30)

    def feed(self, count: int = 20) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap_servers})
        for number in range(self.fed, self.fed + count):
            producer.produce(f"{self.topic}-in", f"v{number}", key=str(number), partition=number % 2)
        assert producer.flush(60) == 0
        self.fed += count

    @property
    def options(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self._bootstrap_servers, "topic": self.topic}

    def frame(self) -> DataFrame:
        options = {"subscribe": f"{self.topic}-in", "startingOffsets": "earliest"}
        servers = {"kafka.bootstrap.servers": self._bootstrap_servers}
        source = self._spark.readStream.format("ottla").options(**servers, **options).load()
        counts = source.selectExpr(PARITY).groupBy("key").count()
        return counts.selectExpr("key", "concat(key, ':', count) AS value")

    def run(self, **options: Any) -> None:
        query = to_topic(
            self.frame(),
            self.topic,
            checkpoint=str(self.checkpoint),
            bootstrap_servers=self._bootstrap_servers,
            trigger="available-now",
            output_mode="update",
            **options,
        )
        assert query is not None
        assert query.awaitTermination(120)

    def each_batch(self, function: Any) -> None:
        query = (
            self.frame()
            .writeStream.outputMode("update")
            .foreachBatch(function)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    def forget_last_commit(self) -> None:
        """Simulate a driver that died after Kafka's commit and before the checkpoint's."""
        commits = [each for each in (self.checkpoint / "commits").iterdir() if each.name.isdigit()]
        last = max(commits, key=lambda each: int(each.name))
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)

    def written(self, isolation: str = "read_committed") -> Counter[bytes]:
        found = consume(self._bootstrap_servers, self.topic, isolation=isolation)
        return Counter(message.value() or b"" for message in found)

    def expected(self) -> Counter[bytes]:
        return Counter(b"%d:%d" % (key, n) for key in (0, 1) for n in range(10, self.fed // 2 + 1, 10))


@pytest.fixture
def counts(spark: SparkSession, ottla_broker: Broker, checkpoint: str) -> Counts:
    return Counts(spark, ottla_broker.bootstrap_servers, checkpoint)


@pytest.mark.peers
def test_updates_are_written_once_to_apache_kafka(
    spark: SparkSession, apache_kafka: str, checkpoint: str
) -> None:
    test_updates_that_spark_replays_are_not_written_again_and_keep_their_state(
        Counts(spark, apache_kafka, checkpoint)
    )


def test_updates_that_spark_replays_are_not_written_again_and_keep_their_state(counts: Counts) -> None:
    for _ in range(2):
        counts.feed()
        counts.run()
        assert counts.written() == counts.expected()
        counts.forget_last_commit()
        counts.run()
        assert counts.written() == counts.expected()
    # No records were written and aborted, either.
    assert counts.written("read_uncommitted") == counts.expected()


def test_at_least_once_writes_a_replayed_batch_again(counts: Counts) -> None:
    counts.feed()
    counts.run(options={"ottla.delivery": "at-least-once"})
    counts.forget_last_commit()
    counts.run(options={"ottla.delivery": "at-least-once"})
    assert counts.written() == Counter({b"0:10": 2, b"1:10": 2})


#: A driver step, by its function or by the record it appends, and whether it completes before the driver dies.
STEPS = {
    "before tasks run": ("prepare", "before"),
    "after tasks have written": ("prepare", "after"),
    "before the decision": (b'"kind":"decide"', "before"),
    "after the decision": (b'"kind":"decide"', "after"),
    "before the record that it is done": (b'"kind":"done"', "before"),
    "after the record that it is done": (b'"kind":"done"', "after"),
    "after the commit": ("commit", "after"),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_driver_that_stops_at_any_step_is_right_after_a_restart(
    counts: Counts, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The driver stops without cleanup. `test_driver_crashes` kills the process."""
    counts.feed()
    counts.run()
    counts.feed()
    what, when = STEPS[step]
    with monkeypatch.context() as patch:
        patch.setattr(batches, "_abort", lambda options, attempt: None)
        if isinstance(what, str):
            function = getattr(batches, what)

            def stopped(*arguments: Any) -> Any:
                if when == "after":
                    function(*arguments)
                raise Dies(step)

            patch.setattr(batches, what, stopped)
        else:
            append = CommitTopic.append

            def appended(self: CommitTopic, cluster: Any, record: bytes) -> Any:
                if what in record:
                    if when == "after":
                        append(self, cluster, record)
                    raise Dies(step)
                return append(self, cluster, record)

            patch.setattr(CommitTopic, "append", appended)
        with pytest.raises(Exception, match=step):
            counts.run()
    counts.run()
    assert counts.written() == counts.expected()
    counts.feed()
    counts.run()
    assert counts.written() == counts.expected()


def test_a_batch_that_fails_leaves_nothing_open(counts: Counts, spark: SparkSession) -> None:
    """Readers need not wait for the other tasks' transactions to time out."""
    counts.feed()

    def each(rows: DataFrame, number: int) -> None:
        failing = rows.selectExpr("key", "IF(key = '1', raise_error('no good'), value) AS value")
        write_batch(failing, counts.options, batch_id=number, checkpoint=str(counts.checkpoint))

    with pytest.raises(Exception, match="no good"):
        counts.each_batch(each)
    from ottla.client.cluster import Cluster
    from ottla.client.settings import Settings
    from ottla.client.transactions import TransactionClient

    query = query_of(counts.checkpoint)
    cluster = Cluster(
        Settings.from_properties({"bootstrap.servers": counts.options["kafka.bootstrap.servers"]})
    )
    assert TransactionClient(cluster).open_ids(f"ottla-spark-{query}") == []
    cluster.close()
    counts.run()
    assert counts.written() == counts.expected()


def test_a_second_write_of_the_same_batch_is_refused_and_not_swallowed(counts: Counts) -> None:
    counts.feed()
    failures: list[str] = []

    def each(rows: DataFrame, number: int) -> None:
        rows.persist()
        write_batch(rows, counts.options, batch_id=number, checkpoint=str(counts.checkpoint))
        try:
            write_batch(rows, counts.options, batch_id=number, checkpoint=str(counts.checkpoint))
        except OptionError as error:
            failures.append(str(error))

    counts.each_batch(each)
    assert failures == [
        "Batch 0 has been written by an earlier call, and each can be only once: for several topics, write one "
        "frame with a column 'topic'."
    ]
    assert counts.written() == counts.expected()


def test_another_thread_must_say_which_query_it_is(counts: Counts) -> None:
    counts.feed()
    failures: list[BaseException] = []

    def each(rows: DataFrame, number: int) -> None:
        def write(**ids: str) -> None:
            try:
                write_batch(rows, counts.options, batch_id=number, checkpoint=str(counts.checkpoint), **ids)
            except OptionError as error:
                failures.append(error)

        from ottla.spark import queries

        query, run = queries.query_id(rows.sparkSession), queries.run_id(rows.sparkSession)
        assert query is not None
        assert run is not None
        for ids in ({}, {"query_id": query, "run_id": run}):
            thread = threading.Thread(target=write, kwargs=ids)
            thread.start()
            thread.join()

    counts.each_batch(each)
    assert [str(each)[:20] for each in failures] == ["Which query is this?"]
    assert counts.written() == counts.expected()


def test_a_frame_that_cannot_be_written_is_refused_before_anything_runs(spark: SparkSession) -> None:
    frame = spark.range(3)
    with pytest.raises(OptionError, match="There is no column 'value'"):
        write_batch(
            frame, {"kafka.bootstrap.servers": "localhost:1", "topic": "t"}, batch_id=0, checkpoint="/c"
        )
