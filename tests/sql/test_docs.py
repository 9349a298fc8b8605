"""The tutorial docs/tutorials/sql-and-console.md runs as printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs.terminals import blocks, commands, laptop_with_servers, started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = "tutorials/sql-and-console.md"


@pytest.mark.timeout(400)
def test_the_tutorial_runs_as_printed(spark: SparkSession, tmp_path: Path) -> None:
    from ottla.sql import SqlSession

    server, consume, look = blocks(PAGE, "bash")
    first, queries, continuous, tables, clean_up = blocks(PAGE, "sql")
    with laptop_with_servers(tmp_path) as shell, started(shell, server.strip()):
        session = SqlSession(
            spark, bootstrap_servers=shell.line("127.0.0.1:9092"), checkpoints=str(tmp_path / "checkpoints")
        )
        try:
            streams, described, printed = (list(result.rows) for result in session.execute(first)[-3:])
            assert streams == [("TWEETS", "tweets", "KAFKA", "JSON", "no")]
            assert len(described) == 5
            assert len(printed) == 3
            [records] = (shell(line) for line in commands(consume))
            assert {json.loads(json.loads(line)["value"])["USERNAME"] for line in records} == {"ann", "bob"}

            pulled, _, pushed = (list(result.rows) for result in session.execute(queries))
            assert sorted(pulled) == [("ann", 12), ("ann", 40)]
            assert sorted(pushed) == [("ANN", 5), ("ANN", 7), ("BOB", 15)]

            running, trending, most = (list(result.rows) for result in session.execute(continuous)[-3:])
            assert [row[0] for row in running] == ["CSAS_HASHTAGS_1", "CTAS_TRENDING_2"]
            assert sorted(row[0] for row in trending) == ["hello", "kafka", "python"]
            # Both tweets may be in one window, or in two if a minute began between them.
            assert most in ([("kafka", 2)], [])

            located, ann = (list(result.rows) for result in session.execute(tables)[-2:])
            assert sorted(located) == [
                ("ann", "Hello", None),
                ("ann", "Streams", None),
                ("ann", "Tables", "Brno"),
                ("bob", "Kafka in Python", None),
            ]
            assert ann == [("ann", "Brno")]

            topics, found = ("".join(shell(line)) for line in commands(look))
            assert '"tweets"' in topics
            assert "Kafka in Python" in found
            assert "Streams" not in found

            session.execute(clean_up)
            assert [row[0] for row in session.execute("SHOW TABLES;")[0].rows] == ["USERS"]
        finally:
            session.stop()
