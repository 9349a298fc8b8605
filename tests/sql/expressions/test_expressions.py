"""Expressions have the values that ksqlDB documents. A family is one query, so hundreds of cases take seconds."""

from __future__ import annotations

import math
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("sqlglot")

from ottla.sql.engine import SETTINGS, plain
from ottla.sql.errors import SqlError
from ottla.sql.parsing import statements as s
from ottla.sql.parsing.parser import parse
from ottla.sql.planning.functions import names
from ottla.sql.planning.join_plan import view
from ottla.sql.planning.plan import plan_select
from ottla.sql.sources import Source, from_statement
from tests.sql.expressions import (
    aggregates,
    collections,
    conditions,
    json_texts,
    numbers,
    page,
    refused,
    texts,
    times,
)
from tests.sql.expressions.cases import ROW, Case

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

FAMILIES: list[ModuleType] = [texts, numbers, conditions, times, collections, json_texts]


@pytest.fixture(scope="module")
def row(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with the engine's settings and the row of the cases."""
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    columns = ", ".join(f"{value} AS `{name.split()[0].upper()}`" for name, value in ROW.items())
    # Cached, because the optimizer would fold constants, while queries over topics run compiled.
    kept = spark.sql(f"SELECT {columns}").cache()
    kept.createOrReplaceTempView("row_of_cases")
    yield spark
    kept.unpersist()
    spark.catalog.dropTempView("row_of_cases")
    for name, old in before.items():
        if old is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, old)


def _source() -> Source:
    [statement] = parse(f"CREATE STREAM r ({', '.join(ROW)}) WITH (kafka_topic='r');")
    assert isinstance(statement, s.CreateSource)
    return from_statement(statement)[0]


def _in_spark(case: Case, source: Source) -> str:
    [statement] = parse(f"SELECT {case.expression} AS it FROM r;")
    assert isinstance(statement, s.Query)
    return plan_select(statement.select, lambda *_: source, batch=True).outputs[0].sql


def _same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        return (math.isnan(expected) and math.isnan(found)) or math.isclose(found, expected, abs_tol=1e-12)
    if isinstance(expected, list) and isinstance(found, list):
        return len(found) == len(expected) and all(map(_same, found, expected))
    # A DOUBLE is not a DECIMAL, and a BOOLEAN not an INT.
    return type(found) is type(expected) and bool(found == expected)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__.rsplit(".", 1)[-1])
def test_expressions_have_the_values_of_ksqldb(row: SparkSession, family: ModuleType) -> None:
    source = _source()
    cases: list[Case] = family.CASES
    written = [_in_spark(case, source) for case in cases]
    values = _evaluated(row, written)
    wrong = [
        f"{case.expression}: {found!r}, not {case.result!r}\n    {sql}"
        for case, sql, found in zip(cases, written, values, strict=True)
        if not _same(found, case.result)
    ]
    assert not wrong, f"{len(wrong)} of {len(cases)}\n" + "\n".join(wrong)


def test_aggregates_have_the_values_of_ksqldb(row: SparkSession) -> None:
    [statement] = parse(f"CREATE STREAM r ({', '.join(aggregates.COLUMNS)}) WITH (kafka_topic='r');")
    assert isinstance(statement, s.CreateSource)
    source = from_statement(statement)[0]
    names = [name.split()[0].upper() for name in aggregates.COLUMNS]
    rows = " UNION ALL ".join(
        f"SELECT {', '.join(f'{value} AS `{name}`' for name, value in zip(names, values, strict=True))}, "
        f"{number} AS ROWOFFSET, {1000 + number} AS ROWTIME, 0 AS ROWPARTITION"
        for number, values in enumerate(aggregates.ROWS)
    )
    written = [_in_spark(case, source) for case in aggregates.CASES]
    try:
        # The last rows come first: Spark's row order does not count.
        row.sql(rows).repartition(2).createOrReplaceTempView("rows_of_cases")
        columns = ", ".join(f"{sql} AS c{number}" for number, sql in enumerate(written))
        found = row.sql(f"SELECT {columns} FROM rows_of_cases AS `R`").first()
    finally:
        row.catalog.dropTempView("rows_of_cases")
    assert found is not None
    wrong = [
        f"{case.expression}: {value!r}, not {case.result!r}\n    {sql}"
        for case, sql, value in zip(aggregates.CASES, written, map(plain, found), strict=True)
        if not _same(value, case.result)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("items", "rows"),
    [
        ("EXPLODE(a) AS it", [(1,), (None,), (3,)]),
        ("EXPLODE(ARRAY[i, 8]) AS it, s", [(7, "ksql"), (8, "ksql")]),
        ("EXPLODE(na) AS it", []),
        ("CUBE_EXPLODE(ARRAY[1, 2]) AS it", [([None, None],), ([None, 2],), ([1, None],), ([1, 2],)]),
        ("CUBE_EXPLODE(ARRAY['a', ns]) AS it", [([None, None],), (["a", None],)]),
        ("st->*, i", [(1, "x", 7)]),
        ("STRUCT(p := i, q := st)->q->*", [(1, "x")]),
    ],
)
def test_what_makes_rows_and_columns(row: SparkSession, items: str, rows: list[tuple[Any, ...]]) -> None:
    [statement] = parse(f"SELECT {items} FROM r;")
    assert isinstance(statement, s.Query)
    plan = plan_select(statement.select, lambda *_: _source(), batch=True)
    row.sql("SELECT *, 0 AS ROWTIME, false AS __deleted FROM row_of_cases").createOrReplaceTempView(
        view("R").strip("`")
    )
    try:
        found = row.sql(plan.sql).drop("__rowtime").collect()
    finally:
        row.catalog.dropTempView(view("R").strip("`"))
    assert [tuple(map(plain, each)) for each in found] == rows


@pytest.mark.parametrize("case", refused.CASES, ids=lambda case: case.expression)
def test_what_is_refused(case: Case) -> None:
    with pytest.raises(SqlError) as caught:
        _in_spark(case, _source())
    assert str(caught.value) == case.result


def test_every_function_has_cases() -> None:
    covered = {case.function for family in page.FAMILIES for case in family.CASES}
    assert set(names()) - covered == {"CUBE_EXPLODE", "EXPLODE"}


def test_the_page_says_what_the_cases_say() -> None:
    assert page.PAGE.read_text() == page.page(), "run python -m tests.sql.expressions.page"


def _evaluated(spark: SparkSession, written: list[str]) -> list[Any]:
    columns = [f"{sql} AS c{number}" for number, sql in enumerate(written)]
    try:
        return _row(spark, columns)
    except Exception:
        # Some expressions fail: report which, and why.
        return [_alone(spark, column) for column in columns]


def _row(spark: SparkSession, columns: list[str]) -> list[Any]:
    return [
        plain(value) for value in spark.sql(f"SELECT {', '.join(columns)} FROM row_of_cases AS `R`").first()
    ]


def _alone(spark: SparkSession, column: str) -> Any:
    try:
        return _row(spark, [column])[0]
    except Exception as error:
        return str(error)[:300]
