"""Promise: exactly-once pipelines and SQL need exactly the rights listed in docs/how-to/secure-a-cluster.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from ottla.security.acls import Acl
from ottla.testing import Broker, acl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewBroker = Callable[[list[Acl]], Broker]


def allow(kind: str, name: str, *operations: str) -> list[Acl]:
    """Add an ACL. A name that ends with `*` is a prefix."""
    prefixed = name.endswith("*")
    return [acl("ann", each, **{kind: name.removesuffix("*")}, prefixed=prefixed) for each in operations]


EXACTLY_ONCE = [
    *allow("topic", "__ottla_spark_commits_*", "CREATE", "READ", "WRITE", "DELETE"),
    *allow("transactional_id", "ottla-spark-*", "WRITE"),
]
SQL = [*EXACTLY_ONCE, *allow("topic", "__ottla_sql", "CREATE", "READ", "WRITE")]


@pytest.fixture
def new_broker() -> Iterator[NewBroker]:
    brokers: list[Broker] = []

    def start(acls: list[Acl]) -> Broker:
        broker = Broker(security="SASL_SSL", users={"ann": "pencil"}, acls=acls).start()
        brokers.append(broker)
        for name in ("events", "results"):
            broker.create_topic(name, partitions=1)
        return broker

    yield start
    for broker in brokers:
        broker.stop()


def test_a_pipeline_writes_exactly_once_with_the_rights_that_it_needs(
    spark: SparkSession, new_broker: NewBroker, checkpoint: str
) -> None:
    broker = new_broker(
        [*EXACTLY_ONCE, *allow("topic", "events", "READ"), *allow("topic", "results", "WRITE")]
    )
    for number in range(20):
        broker.produce("events", b"v%d" % number)
    options = {f"kafka.{name}": value for name, value in broker.client_config(user="ann").items()}
    frame = (
        spark.readStream.format("ottla")
        .options(**options, subscribe="events", startingOffsets="earliest")
        .load()
        .selectExpr("upper(CAST(value AS STRING)) AS value")
    )
    query = (
        frame.writeStream.format("ottla")
        .options(**options, topic="results", checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    written = [bytes(record.value or b"") for record in broker.records("results")]
    assert sorted(written) == sorted(b"V%d" % number for number in range(20))


def test_sql_works_with_the_rights_that_it_needs(
    spark: SparkSession, new_broker: NewBroker, tmp_path: Path
) -> None:
    from ottla.sql import SqlSession

    broker = new_broker(
        [
            *SQL,
            *allow("topic", "events", "READ"),
            *allow("topic", "LOUD", "CREATE", "READ", "WRITE"),
        ]
    )
    broker.produce("events", json.dumps({"word": "hello"}).encode())
    login = dict(broker.client_config(user="ann"))
    session = SqlSession(
        spark,
        bootstrap_servers=str(login.pop("bootstrap.servers")),
        checkpoints=str(tmp_path / "checkpoints"),
        properties=login,
    )
    try:
        session.execute(
            "SET 'auto.offset.reset' = 'earliest';"
            "CREATE STREAM events (word STRING) WITH (kafka_topic='events', value_format='JSON');"
            "CREATE STREAM loud AS SELECT UCASE(word) AS word FROM events;"
        )
        for running in session.queries.all():
            running.query.processAllAvailable()
        [record] = broker.records("LOUD")
        assert json.loads(bytes(record.value or b"")) == {"WORD": "HELLO"}
    finally:
        session.stop()
