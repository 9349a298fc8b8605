"""The example in docs/how-to/run-sql.md runs as printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("sqlglot")

from ottla.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "run-sql.md"


def test_the_functions_of_the_page_run_as_printed(
    spark: SparkSession, fresh_ottla_broker: Broker, tmp_path: Path
) -> None:
    from ottla.sql import SqlSession

    page = PAGE.read_text()
    [file] = re.findall(r"^```python\n(# my_functions.py\n.*?)^```", page, re.DOTALL | re.MULTILINE)
    _, statements = re.findall(r"^```sql\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    functions = tmp_path / "my_functions.py"
    functions.write_text(file)
    session = SqlSession(
        spark,
        bootstrap_servers=fresh_ottla_broker.bootstrap_servers,
        checkpoints=str(tmp_path / "checkpoints"),
        functions=[functions],
    )
    session.execute("SET 'auto.offset.reset' = 'earliest';")
    try:
        _, _, away, words, _, longest, described = session.execute(statements)
    finally:
        session.stop()
    assert list(away.rows) == [(1, 5.0), (1, None), (2, None)]
    assert list(words.rows) == [("short",), ("and",), ("sweet",), ("long-winded",)]
    assert sorted(longest.rows)[-1] == (2, "hm", 1)
    assert described.message is not None
    assert "Variation   : AWAY(place VARCHAR)" in described.message
