"""The statements in docs/sql.md run as printed."""

from __future__ import annotations

import re
from pathlib import Path

from tests.sql.conftest import Sql

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"


def test_the_statements_of_the_page_run_as_printed(sql: Sql) -> None:
    sql("UNSET 'auto.offset.reset';")  # the page sets it itself
    blocks = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 5
    results = [sql.session.execute(block) for block in blocks]
    streams, described, printed = (list(result.rows) for result in results[0][-3:])
    assert streams == [("TWEETS", "tweets", "KAFKA", "JSON", "no")]
    assert len(described) == 5
    assert len(printed) == 3
    pulled, _, pushed = (list(result.rows) for result in results[1])
    assert sorted(pulled) == [("ann", 12), ("ann", 40)]
    assert sorted(pushed) == [("ANN", 5), ("ANN", 7), ("BOB", 15)]
    queries, trending, most = (list(result.rows) for result in results[2][-3:])
    assert [row[0] for row in queries] == ["CSAS_HASHTAGS_1", "CTAS_TRENDING_2"]
    assert sorted(row[0] for row in trending) == ["hello", "kafka", "python"]
    # Both tweets may be in one window, or in two if a minute began between them.
    assert most in ([("kafka", 2)], [])
    located, ann = (list(result.rows) for result in results[3][-2:])
    assert sorted(located) == [
        ("ann", "Hello", None),
        ("ann", "Streams", None),
        ("ann", "Tables", "Brno"),
        ("bob", "Kafka in Python", None),
    ]
    assert ann == [("ann", "Brno")]
    assert [row[0] for row in sql("SHOW TABLES;")] == ["USERS"]
