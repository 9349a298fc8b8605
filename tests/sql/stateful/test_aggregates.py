"""Accumulators match Spark's own aggregates in all cases; undo and merge are consistent with add."""

from __future__ import annotations

import math
import random
import re
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("sqlglot")

from ottla.sql.parsing import statements as s
from ottla.sql.parsing.parser import parse
from ottla.sql.planning.aggregate_plan import GroupedScope
from ottla.sql.planning.functions import AGGREGATES
from ottla.sql.planning.scope import Scope
from ottla.sql.sources import from_statement
from ottla.sql.sql_types import SqlType
from ottla.sql.stateful.aggregates import AggregateCall, accumulator, can_undo
from tests.sql.expressions import aggregates

#: The rows of the cases, as an operator receives them.
ROWS: list[tuple[Any, ...]] = [
    (3, 1.0, Decimal("1.25"), "b", [1], {"k": 1}, {"A": 1}, "z", None),
    (None, 2.0, None, "a", [2], {"k": 2}, {"A": 2}, "z", None),
    (5, 4.0, Decimal("2.50"), None, [1], {"k": 1}, {"A": 1}, "z", None),
    (3, 5.0, Decimal("10.00"), "a", [1], {"k": 1}, {"A": 1}, "z", None),
    (None, None, None, "c", None, {"k": 3}, {"A": 1}, "z", None),
]
NAMES = [each.split()[0].upper() for each in aggregates.COLUMNS]

#: Whole calls only; Spark evaluates expressions around them.
CASES = [case for case in aggregates.CASES if case.expression.endswith(")") and "->" not in case.expression]


def _call(expression: str) -> tuple[AggregateCall, list[str]]:
    [statement] = parse(f"CREATE STREAM r ({', '.join(aggregates.COLUMNS)}) WITH (kafka_topic='r');")
    assert isinstance(statement, s.CreateSource)
    [query] = parse(f"SELECT {expression} AS it FROM r;")
    assert isinstance(query, s.Query)
    scope = GroupedScope.over(Scope({"R": from_statement(statement)[0]}, query.position), [])
    tree = query.select.items[0].expression
    assert tree is not None
    scope.sql(tree)
    [(call, arguments)] = scope.calls
    return call, arguments


def _value(written: str, row: tuple[Any, ...]) -> Any:
    """Return the value of a case's argument: a column, a negated column, or 1 for `*`."""
    if written == "1":
        return 1
    sign = -1 if written.startswith("-") else 1
    value = row[NAMES.index(re.findall(r"`(\w+)`", written)[-1])]
    return value if sign == 1 or value is None else -value


def _same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float):
        return isinstance(found, float) and (
            math.isclose(found, expected, rel_tol=1e-9) or (math.isnan(found) and math.isnan(expected))
        )
    return type(found) is type(expected) and bool(found == expected)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.expression)
def test_accumulators_give_the_values_of_the_cases(case: aggregates.Case) -> None:
    call, arguments = _call(case.expression)
    one = accumulator(call)
    state = one.initial()
    for place, row in enumerate(ROWS):
        state = one.add(state, [_value(each, row) for each in arguments], place)
    assert _same(one.result(state), case.result), one.result(state)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.expression)
def test_two_halves_merged_give_the_whole(case: aggregates.Case) -> None:
    call, arguments = _call(case.expression)
    one = accumulator(call)
    for middle in range(len(ROWS) + 1):
        halves = [one.initial(), one.initial()]
        for place, row in enumerate(ROWS):
            half = 0 if place < middle else 1
            halves[half] = one.add(halves[half], [_value(each, row) for each in arguments], place)
        assert _same(one.result(one.merge(*halves)), case.result)


@pytest.mark.parametrize(
    "name", [name for name in AGGREGATES if can_undo(AggregateCall(name, (None,), (2,)))]
)
def test_what_is_undone_leaves_no_trace(name: str) -> None:
    chosen = random.Random(name)
    text = name in ("HISTOGRAM", "ATTR", "COLLECT_LIST")
    kind = SqlType("ARRAY", element=SqlType("BIGINT")) if name == "SUM_LIST" else SqlType("BIGINT")
    one = accumulator(AggregateCall(name, (SqlType("STRING") if text else kind,)))

    def row() -> list[Any]:
        value: Any = chosen.choice([None, *range(5)])
        if name == "SUM_LIST" and value is not None:
            value = [value, None, 1]
        return [str(value) if text and value is not None else value, chosen.choice([None, 1, 2, 3])]

    kept, gone = [row() for _ in range(6)], [row() for _ in range(6)]
    with_all = one.initial()
    # Removed rows come last, so that lists have the same order without them.
    for place, values in enumerate([*kept, *gone]):
        with_all = one.add(with_all, values, place)
    for values in reversed(gone):
        with_all = one.undo(with_all, values)
    without = one.initial()
    for place, values in enumerate(kept):
        without = one.add(without, values, place)
    found, expected = one.result(with_all), one.result(without)
    assert found == pytest.approx(expected, nan_ok=True) if isinstance(expected, float) else found == expected


def test_those_that_work_over_tables_are_those_of_ksqldb() -> None:
    undoing = {name for name in AGGREGATES if can_undo(AggregateCall(name, (None,), (2,)))}
    assert undoing == {
        "ATTR", "AVG", "COLLECT_LIST", "CORRELATION", "COUNT", "HISTOGRAM", "STDDEV_SAMP", "STDDEV_SAMPLE", "SUM",
        "SUM_LIST",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "values", "result"),
    [
        ("INTEGER", [2**31 - 1, 1], -(2**31)),
        ("BIGINT", [2**63 - 1, 1], -(2**63)),
        ("INTEGER", [2**31 - 1, 1, -1], 2**31 - 1),
    ],
)
def test_a_sum_overflows_as_in_java(kind: str, values: list[int], result: int) -> None:
    one = accumulator(AggregateCall("SUM", (SqlType(kind),)))
    state = one.initial()
    for value in values:
        state = one.add(state, [value], 0)
    assert one.result(state) == result


def test_states_are_not_changed_in_place() -> None:
    for name in AGGREGATES:
        one = accumulator(AggregateCall(name, (SqlType("STRING"), None), (2,)))
        if name in ("SUM", "AVG", "CORRELATION", "STDDEV_SAMP", "STDDEV_SAMPLE", "SUM_LIST"):
            continue
        first = one.add(one.initial(), ["a", "b"], 1)
        before = one.result(first)
        one.merge(first, one.add(first, ["c", "d"], 2))
        assert one.result(first) == before, name


def test_a_sum_of_decimals_keeps_all_digits_and_does_not_overflow_silently() -> None:
    kind = SqlType("DECIMAL", 38, 2)
    one = accumulator(AggregateCall("SUM", (kind,)))
    large, cent = Decimal("1" * 36 + ".11"), Decimal("0.01")
    state = one.add(one.add(one.initial(), [large], 1), [cent], 2)
    assert one.result(state) == Decimal("1" * 36 + ".12")
    assert one.result(one.undo(state, [large])) == cent
    assert one.result(one.merge(state, one.initial())) == Decimal("1" * 36 + ".12")
    with pytest.raises(ArithmeticError, match="Numeric field overflow"):
        one.result(one.add(state, [Decimal("9" * 36 + ".99")], 3))
