"""Promise: a pipeline that writes exactly once, and SQL, need the rights that docs/security.md lists and no others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from ottla.security.acls import Acl, Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from tests.security.sasl_broker import AuthorizedBroker, add_acls
from tests.spark.consuming import consume
from tests.wire_client import WireClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Op, R = Operation, ResourceType
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "ann",
    "sasl.password": "ann-secret",
}


def allow(kind: ResourceType, name: str, *operations: Operation) -> list[Acl]:
    """A name that ends with `*` stands for all that begin so."""
    prefixed = name.endswith("*")
    pattern = ResourcePattern(
        kind, name.removesuffix("*"), PatternType.PREFIXED if prefixed else PatternType.LITERAL
    )
    return [Acl(pattern, Entry("User:ann", "*", each, Permission.ALLOW)) for each in operations]


EXACTLY_ONCE = [
    *allow(R.TOPIC, "__ottla_spark_commits_*", Op.CREATE, Op.READ, Op.WRITE, Op.DELETE),
    *allow(R.TRANSACTIONAL_ID, "ottla-spark-*", Op.WRITE),
]
SQL = [
    *EXACTLY_ONCE,
    *allow(R.TOPIC, "__ottla_sql", Op.CREATE, Op.READ, Op.WRITE),
]


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[AuthorizedBroker]:
    made = AuthorizedBroker(tmp_path)
    with made.broker:
        for name in ("events", "results"):
            made.broker.create_topic(name, partitions=1)
        yield made


def test_a_pipeline_writes_exactly_once_with_the_rights_that_it_needs(
    spark: SparkSession, secured: AuthorizedBroker, checkpoint: str
) -> None:
    with WireClient(secured.plain) as admin:
        add_acls(
            admin,
            [*EXACTLY_ONCE, *allow(R.TOPIC, "events", Op.READ), *allow(R.TOPIC, "results", Op.WRITE)],
        )
    for number in range(20):
        secured.broker.produce("events", b"v%d" % number)
    options = {f"kafka.{name}": value for name, value in LOGIN.items()}
    options["kafka.bootstrap.servers"] = secured.sasl
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
    found = consume(secured.plain, "results", partitions=1)
    assert sorted(message.value() for message in found) == sorted(b"V%d" % number for number in range(20))


def test_sql_works_with_the_rights_that_it_needs(
    spark: SparkSession, secured: AuthorizedBroker, tmp_path: Path
) -> None:
    from ottla.spark.sql import SqlSession

    with WireClient(secured.plain) as admin:
        add_acls(
            admin,
            [
                *SQL,
                *allow(R.TOPIC, "events", Op.READ),
                *allow(R.TOPIC, "LOUD", Op.CREATE, Op.READ, Op.WRITE),
            ],
        )
    secured.broker.produce("events", json.dumps({"word": "hello"}).encode())
    session = SqlSession(
        spark,
        bootstrap_servers=secured.sasl,
        checkpoints=str(tmp_path / "checkpoints"),
        properties=LOGIN,
    )
    try:
        session.execute(
            "SET 'auto.offset.reset' = 'earliest';"
            "CREATE STREAM events (word STRING) WITH (kafka_topic='events', value_format='JSON');"
            "CREATE STREAM loud AS SELECT UCASE(word) AS word FROM events;"
        )
        for running in session.queries.all():
            running.query.processAllAvailable()
        [record] = secured.broker.records("LOUD")
        assert json.loads(bytes(record.value or b"")) == {"WORD": "HELLO"}
    finally:
        session.stop()
