"""Promise: a micro-batch that Spark repeats after losing its commit changes neither topics nor state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyspark")

from ottla.sql import SqlSession
from ottla.testing import Broker
from tests.sql.conftest import NOON, Sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRIPT = """
CREATE TABLE lefts (id STRING PRIMARY KEY, n INT) WITH (kafka_topic='lefts');
CREATE TABLE rights (id STRING PRIMARY KEY, n INT) WITH (kafka_topic='rights');
CREATE TABLE joined AS SELECT l.id AS id, l.n AS a, r.n AS b FROM lefts l LEFT JOIN rights r ON l.id = r.id;
CREATE STREAM events (who STRING) WITH (kafka_topic='events');
CREATE TABLE counted AS SELECT who, COUNT(*) AS n FROM events WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY who;
"""


class Runs:
    """Runs the same script repeatedly over all available records."""

    def __init__(self, spark: SparkSession, broker: Broker, directory: Path) -> None:
        self._spark = spark
        self._directory = directory
        self._broker = broker
        # The result topics too: compaction would remove replaced changes.
        for topic in ("lefts", "rights", "events", "JOINED", "COUNTED"):
            broker.create_topic(topic)

    def run(self) -> None:
        session = SqlSession(
            self._spark,
            bootstrap_servers=self._broker.bootstrap_servers,
            checkpoints=str(self._directory),
        )
        session.execute("SET 'auto.offset.reset' = 'earliest';")
        for result in session.results(SCRIPT, resume=True):
            if result.query is not None:
                assert result.query.awaitTermination(200)
        session.stop()

    def forget_last_commits(self) -> int:
        """Simulate a driver that died after Kafka's commit and before the checkpoint's."""
        folders = list(self._directory.rglob("commits"))
        for folder in folders:
            last = max(
                (each for each in folder.iterdir() if each.name.isdigit()), key=lambda each: int(each.name)
            )
            last.unlink()
            (folder / f".{last.name}.crc").unlink(missing_ok=True)
        return len(folders)

    def written(self) -> dict[str, list[tuple[bytes | None, Any]]]:
        sql = Sql(None, self._broker)  # type: ignore[arg-type]
        return {topic: sql.records(topic) for topic in ("JOINED", "COUNTED")}


@pytest.fixture
def runs(spark: SparkSession, fresh_ottla_broker: Broker, tmp_path: Path) -> Iterator[Runs]:
    spark.conf.set("spark.ottla.trigger", "available-now")
    yield Runs(spark, fresh_ottla_broker, tmp_path / "checkpoints")
    spark.conf.unset("spark.ottla.trigger")


def test_a_join_of_tables_and_a_windowed_count(runs: Runs, fresh_ottla_broker: Broker) -> None:
    produce = Sql(None, fresh_ottla_broker).produce  # type: ignore[arg-type]
    produce("lefts", {"N": 1}, b"x", NOON)
    produce("rights", {"N": 2}, b"x", NOON + 1)
    for _ in range(2):
        produce("events", {"WHO": "ann"}, at=NOON)
    runs.run()
    first = runs.written()
    assert first["JOINED"][-1] == (b"x", {"A": 1, "B": 2})
    assert [value for _, value in first["COUNTED"]] == [{"N": 2}]
    assert runs.forget_last_commits() == 2
    runs.run()
    assert runs.written() == first
    # Their state is the same as before.
    produce("rights", {"N": 3}, b"x", NOON + 2)
    produce("events", {"WHO": "ann"}, at=NOON)
    runs.run()
    second = runs.written()
    assert second["JOINED"] == [*first["JOINED"], (b"x", {"A": 1, "B": 3})]
    assert [value for _, value in second["COUNTED"]] == [{"N": 2}, {"N": 3}]
