"""The statements about schemas in docs/how-to/run-sql.md run as printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("sqlglot")

from ottla.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.sql import SqlSession

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "run-sql.md"


@contextmanager
def opened(spark: SparkSession, place: Path) -> Iterator[tuple[SqlSession, Broker]]:
    from ottla.sql import SqlSession

    with Broker(registry=True) as broker:
        session = SqlSession(
            spark,
            bootstrap_servers=broker.bootstrap_servers,
            checkpoints=str(place),
            schema_registry=broker.schema_registry_url,
        )
        try:
            yield session, broker
        finally:
            session.stop()


def test_the_statements_about_schemas_run_as_printed(spark: SparkSession, tmp_path: Path) -> None:
    block, _ = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    with opened(spark, tmp_path) as (session, _):
        session.execute("SET 'auto.offset.reset' = 'earliest';")
        results = session.execute(block)
        described, printed = list(results[3].rows), list(results[5].rows)
        assert described == [
            ("ID", "BIGINT", "key"),
            ("AMOUNT", "DECIMAL(9, 2)", ""),
            ("NOTE", "STRING", ""),
        ]
        assert '"NOTE":{"string":"books"}' in printed[0][4]
        for running in session.queries.all():
            assert running.query is not None
            running.query.processAllAvailable()
        pulled = session.execute("SELECT id, amount, note FROM large;")[0].rows
        assert list(pulled) == [(1, Decimal("12.50"), "books")]
        session.execute("DROP STREAM payments DELETE TOPIC;")
        session.execute("ASSERT NOT EXISTS SCHEMA SUBJECT 'payments-value' TIMEOUT 0 SECONDS;")


def test_a_table_is_asked_by_its_key_and_as_a_whole(spark: SparkSession, tmp_path: Path) -> None:
    with opened(spark, tmp_path) as (session, broker):
        session.execute(
            "CREATE TABLE t (k STRING PRIMARY KEY, a INT) "
            "WITH (kafka_topic='t', partitions=1, value_format='AVRO');"
            "INSERT INTO t VALUES ('x', 1), ('y', 2), ('x', 3);"
        )
        # An unreadable record does not replace a row.
        broker.produce("t", b"no record", key=b"x")
        assert list(session.execute("SELECT a, k FROM t WHERE k = 'x';")[0].rows) == [(3, "x")]
        assert sorted(session.execute("SELECT k, a FROM t;")[0].rows) == [("x", 3), ("y", 2)]
