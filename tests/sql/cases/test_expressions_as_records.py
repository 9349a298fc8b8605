"""The expression cases again, over topics: a record in, and the values in the output record.

One query has forty expressions as columns, because a query costs more than an expression.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyspark")

from ottla.sql import SqlError
from tests.sql.cases.case import WAYS, In, Way
from tests.sql.cases.case import Case as RecordCase
from tests.sql.cases.runner import equal, quick, records_of
from tests.sql.expressions import aggregates, page
from tests.sql.expressions.cases import ROW, Case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = 40

#: ROW as a record's value; times as milliseconds, dates as days.
VALUE = {
    "i": 7, "l": 7000000000, "x": 2.5, "d": 12.34, "s": "ksql", "b": "a3NxbA==", "flag": True, "dt": 18911,
    "t": 48330000, "ts": 1625055519446, "a": [1, None, 3], "w": ["one", None, "three"], "m": {"a": 1, "b": 2},
    "st": {"a": 1, "b": "x"}, "mm": {"p": [1, 2], "q": [3]},
}  # fmt: skip

#: The rows of the aggregate cases.
ROWS: list[dict[str, Any]] = [
    {"i": 3, "x": 1.0, "d": 1.25, "s": "b", "a": [1], "m": {"k": 1}, "st": {"a": 1}, "same": "z"},
    {"x": 2.0, "s": "a", "a": [2], "m": {"k": 2}, "st": {"a": 2}, "same": "z"},
    {"i": 5, "x": 4.0, "d": 2.50, "a": [1], "m": {"k": 1}, "st": {"a": 1}, "same": "z"},
    {"i": 3, "x": 5.0, "d": 10.00, "s": "a", "a": [1], "m": {"k": 1}, "st": {"a": 1}, "same": "z"},
    {"s": "c", "m": {"k": 3}, "st": {"a": 1}, "same": "z"},
]

CHUNKS: list[tuple[str, Sequence[Case]]] = [
    (f"{family.__name__.rsplit('.', 1)[-1]} from {start}", family.CASES[start : start + COLUMNS])
    for family in page.FAMILIES
    if family is not aggregates
    for start in range(0, len(family.CASES), COLUMNS)
]


@pytest.mark.cases
@pytest.mark.parametrize(("chunk"), [pytest.param(cases, id=name) for name, cases in CHUNKS])
def test_expressions(spark: SparkSession, chunk: Sequence[Case]) -> None:
    definition = f"CREATE STREAM r ({', '.join(ROW)}) WITH (kafka_topic='r', partitions=1);"
    query = "CREATE STREAM o AS SELECT {} FROM r;"
    # With one record, both ways of processing are the same.
    _compare(spark, definition, query, chunk, [In("r", None, VALUE, 5)], "all at once")


@pytest.mark.cases
@pytest.mark.parametrize("way", WAYS)
def test_aggregates(spark: SparkSession, way: Way) -> None:
    definition = f"CREATE STREAM r ({', '.join(aggregates.COLUMNS)}) WITH (kafka_topic='r', partitions=1);"
    query = "CREATE TABLE o AS SELECT same, {} FROM r GROUP BY same;"
    inputs = [In("r", None, row, 1000 + number) for number, row in enumerate(ROWS)]
    _compare(spark, definition, query, aggregates.CASES, inputs, way)


def _compare(
    spark: SparkSession, definition: str, query: str, cases: Sequence[Case], inputs: Sequence[In], way: Way
) -> None:
    columns = ", ".join(f"{case.expression} AS c{number}" for number, case in enumerate(cases))
    whole = RecordCase("expressions", definition + query.format(columns), inputs)
    with quick(spark) as session:
        try:
            value = records_of(session, whole, way, "O")[-1][1]
        except SqlError as error:
            pytest.fail(f"{error}\n{_culprits(session, definition, query, cases, inputs)}")
    wrong = [
        f"{case.expression}: {value[f'C{number}']!r}, not {in_json(case.result)!r}"
        for number, case in enumerate(cases)
        if not equal(value[f"C{number}"], in_json(case.result))
    ]
    assert not wrong, f"{len(wrong)} of {len(cases)}\n" + "\n".join(wrong)


def _culprits(
    spark: SparkSession, definition: str, query: str, cases: Sequence[Case], inputs: Sequence[In]
) -> str:
    found = []
    for case in cases:
        alone = RecordCase("expression", definition + query.format(f"{case.expression} AS c"), inputs)
        try:
            records_of(spark, alone, "all at once", "O")
        except SqlError as error:
            found.append(f"{case.expression}: {error}")
    return "\n".join(found)


def in_json(value: Any) -> Any:
    """Convert a Python value to its JSON form in a record."""
    if isinstance(value, datetime):
        return round((value - datetime(1970, 1, 1)).total_seconds() * 1000)
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    if isinstance(value, time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * 1000 + value.microsecond // 1000
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [in_json(each) for each in value]
    if isinstance(value, dict):
        return {name: in_json(each) for name, each in value.items()}
    return value
