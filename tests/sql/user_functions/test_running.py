"""Python functions in statements, on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("sqlglot")

from ottla.testing import Broker
from tests.sql.conftest import NOON, Sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = Path(__file__).with_name("shop_functions.py")


@pytest.fixture
def shop(spark: SparkSession, fresh_ottla_broker: Broker, tmp_path: Path) -> Iterator[Sql]:
    from ottla.sql import SqlSession

    session = SqlSession(
        spark,
        bootstrap_servers=fresh_ottla_broker.bootstrap_servers,
        checkpoints=str(tmp_path / "checkpoints"),
        functions=[FILE],
    )
    session.execute("SET 'auto.offset.reset' = 'earliest';")
    session.execute(
        "CREATE STREAM s (k STRING KEY, t STRING, n INT, d DECIMAL(6, 2), w ARRAY<STRING>, "
        "p STRUCT<name STRING, age INT>, ts TIMESTAMP, da DATE) WITH (kafka_topic='s', partitions=1);"
    )
    yield Sql(session, fresh_ottla_broker)
    session.stop()


#: expression → its value for the full row, and for a row of nulls
VALUES: list[tuple[str, Any, Any]] = [
    ("SHOUT(t)", "HELLO BIG WORLD!", None),
    ("SHOUT(t, 3)", "HELLO BIG WORLD!!!", None),
    ("shout(SUBSTRING(t, 1, 5), n)", "HELLO!!", None),
    ("LEN(SHOUT(t))", 16, None),
    ("OR_NONE(t)", "Hello big world", "nothing"),
    ("DIVIDED(7, n)", 3, None),
    ("DIVIDED(7, n - 2)", None, None),  # fails: the result is null
    ("PRICE(d, n)", Decimal("24.68"), None),
    ("TOTAL(n, 2, 3)", 7, None),
    ("TOTAL()", 0, 0),
    ("ANSWER() + n", 44, None),
    ("COUNTED(w)['a']", 2, None),
    ("OLDER(p)->age", 31, None),
    ("OLDER(p)->name", "ann", None),
    ("NEXT_DAY(ts, da)", datetime(2026, 1, 2, 12), None),
    ("DOUBLED(n)", 4, None),
    ("OF_ANOTHER_TYPE(t)", 15, None),
    ("OF_ANOTHER_TYPE('wrong')", None, None),
    ("CASE WHEN n > 1 THEN SHOUT(t) ELSE 'small' END", "HELLO BIG WORLD!", "small"),
]


def _fill(shop: Sql) -> None:
    full = {
        "t": "Hello big world", "n": 2, "d": 12.34, "w": ["a", "b", "a"], "p": {"name": "ann", "age": 30},
        "ts": NOON, "da": 20000,
    }  # fmt: skip
    shop.produce("s", full, key=b"full", at=NOON)
    shop.produce("s", {"t": None}, key=b"none", at=NOON)


def test_scalar_functions_have_their_values(shop: Sql) -> None:
    _fill(shop)
    columns = ", ".join(f"{expression} AS c{i}" for i, (expression, _, _) in enumerate(VALUES))
    full, none = shop(f"SELECT {columns} FROM s;")
    wrong = [
        f"{expression}: {found!r} and {null!r}"
        for (expression, value, of_null), found, null in zip(VALUES, full, none, strict=True)
        if (found, null) != (value, of_null)
    ]
    assert not wrong, "\n".join(wrong)
    # In a continuous query, in WHERE, and in the output.
    shop("CREATE STREAM loud AS SELECT k, SHOUT(t) AS t FROM s WHERE LEN(OR_NONE(t)) = 15;")
    shop.settle()
    assert shop.records("LOUD") == [(b"full", {"T": "HELLO BIG WORLD!"})]


def test_table_functions_are_zipped(shop: Sql) -> None:
    _fill(shop)
    assert shop("SELECT k, WORDS(t) AS w FROM s;") == [("full", "Hello"), ("full", "big"), ("full", "world")]
    assert shop("SELECT WORDS(t), UP_TO(n), EXPLODE(w) AS e FROM s;") == [
        ("Hello", 1, "a"),
        ("big", 2, "b"),
        ("world", None, "a"),
    ]
    assert shop("SELECT LEN(WORDS(t)) + 1 AS c, EXPLODE(w) AS e FROM s EMIT CHANGES LIMIT 3;") == [
        (6, "a"),
        (4, "b"),
        (6, "a"),
    ]


def test_aggregates_fold_the_rows_of_a_group(shop: Sql) -> None:
    for text, number in (("a", 1), (None, 5), ("abc", 3), ("ab", None)):
        shop.produce("s", {"t": text, "n": number}, key=b"k", at=NOON)
    assert shop("SELECT k, LONGEST(t) AS l, WEIGHTED(n, LEN(t), 1) AS w FROM s GROUP BY k;") == [
        ("k", "abc", 2.5)
    ]


def test_what_no_signature_takes_is_refused_at_its_place(shop: Sql) -> None:
    assert shop.refused("SELECT SHOUT(n) FROM s;") == (
        "line 1, column 14: Function 'SHOUT' does not accept parameters (INTEGER). "
        "Valid alternatives are: SHOUT(text VARCHAR) or SHOUT(text VARCHAR, times BIGINT)."
    )
    assert "which no lambda can call" in shop.refused("SELECT TRANSFORM(w, x => SHOUT(x)) FROM s;")
    assert "cannot be the argument of another" in shop.refused("SELECT UP_TO(LEN(WORDS(t))) FROM s;")
