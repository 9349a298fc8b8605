"""The statements about schemas of docs/sql.md run as they are printed."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("sqlglot")

from ottla.testing import Broker
from tests.spark.sql.test_docs import PAGE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_statements_about_schemas_run_as_printed(spark: SparkSession, tmp_path: Path) -> None:
    from ottla.spark.sql import SqlSession

    [block] = re.findall(r"^```sql schemas\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    with Broker(registry=True) as broker:
        session = SqlSession(
            spark,
            bootstrap_servers=broker.bootstrap_servers,
            checkpoints=str(tmp_path),
            schema_registry=broker.schema_registry_url,
        )
        try:
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
            # By its key a row is found without a scan, and decoded all the same.
            session.execute(
                "CREATE TABLE t (k STRING PRIMARY KEY, a INT) "
                "WITH (kafka_topic='t', partitions=1, value_format='AVRO');"
                "INSERT INTO t VALUES ('x', 1), ('y', 2), ('x', 3);"
            )
            # What cannot be read does not replace a row.
            broker.produce("t", b"no record", key=b"x")
            assert list(session.execute("SELECT a, k FROM t WHERE k = 'x';")[0].rows) == [(3, "x")]
            assert sorted(session.execute("SELECT k, a FROM t;")[0].rows) == [("x", 3), ("y", 2)]
            session.execute("DROP STREAM payments DELETE TOPIC;")
            session.execute("ASSERT NOT EXISTS SCHEMA SUBJECT 'payments-value' TIMEOUT 0 SECONDS;")
        finally:
            session.stop()
