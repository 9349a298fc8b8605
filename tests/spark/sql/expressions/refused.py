"""What is refused, and with which sentence."""

from __future__ import annotations

from tests.spark.sql.expressions.cases import Case

CASES: list[Case] = [
    Case("+ of texts", "s + 1", "line 1, column 8: A STRING and INTEGER cannot be added; CAST it to STRING."),
    Case("CAST", "CAST(b AS STRING)", "line 1, column 13: BYTES cannot be CAST to STRING; use FROM_BYTES."),
    Case(
        "COUNT",
        "COUNT(DISTINCT i)",
        "line 1, column 23: COUNT(DISTINCT …) is not supported; use COUNT_DISTINCT(…).",
    ),
    Case(
        "EXPLODE",
        "EXPLODE(SPLIT(EXPLODE(w), ','))",
        "line 1, column 30: A table function cannot be the argument of another one.",
    ),
    Case(
        "TRANSFORM", "TRANSFORM(a)", "line 1, column 18: TRANSFORM takes a collection and a lambda, x => …."
    ),
    Case(
        "TRANSFORM",
        "TRANSFORM(m, (k, v) => v)",
        "line 1, column 18: TRANSFORM of a map takes two lambdas: of the key and of the value.",
    ),
    Case(
        "REDUCE",
        "REDUCE(a, 0)",
        "line 1, column 15: REDUCE takes a collection, a start and a lambda, x => ….",
    ),
    Case("LPAD", "LPAD(s, 3)", "line 1, column 13: LPAD takes 3 arguments, not 2."),
    Case("UCASE", "UCASE()", "line 1, column 1: UCASE takes 1 argument, not 0."),
]
