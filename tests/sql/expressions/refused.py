"""Refused expressions, with their error messages."""

from __future__ import annotations

from tests.sql.expressions.cases import Case

CASES: list[Case] = [
    Case(
        "+ of texts",
        "s + 1",
        "line 1, column 8: Unsupported arithmetic types. STRING INTEGER; CAST one of them.",
    ),
    Case(
        "arithmetic",
        "flag * x",
        "line 1, column 8: Unsupported arithmetic types. BOOLEAN DOUBLE; CAST one of them.",
    ),
    Case(
        "CAST",
        "CAST(b AS STRING)",
        "line 1, column 13: Cast of BYTES to STRING is not supported; use FROM_BYTES.",
    ),
    Case(
        "CAST",
        "CAST(s AS ARRAY<INT>)",
        "line 1, column 13: Cast of STRING to ARRAY<INTEGER> is not supported.",
    ),
    Case("CAST", "CAST(flag AS INT)", "line 1, column 13: Cast of BOOLEAN to INTEGER is not supported."),
    Case(
        "CAST",
        "CAST(m AS STRUCT<a INT>)",
        "line 1, column 13: Cast of MAP<STRING, INTEGER> to STRUCT<`A` INTEGER> is not supported.",
    ),
    Case(
        "comparison",
        "i >= 'seven'",
        "line 1, column 8: Cannot compare I (INTEGER) to 'seven' (STRING) with GREATER_THAN_OR_EQUAL.",
    ),
    Case(
        "comparison",
        "a < ARRAY[1]",
        "line 1, column 8: Cannot compare A (ARRAY<INTEGER>) to ARRAY[1] (ARRAY<INTEGER>) with LESS_THAN.",
    ),
    Case(
        "comparison",
        "i = NULL",
        "line 1, column 8: Comparison with NULL not supported: I = NULL; use IS NULL.",
    ),
    Case("IN", "i IN (1, 'one')", 'line 1, column 8: invalid input syntax for type INTEGER: "one".'),
    Case("IN", "flag IN ('perhaps')", 'line 1, column 8: invalid input syntax for type BOOLEAN: "perhaps".'),
    Case(
        "IN",
        "i IN (1, s)",
        "line 1, column 8: operator does not exist: INTEGER = STRING (S). "
        "Hint: You might need to add explicit type casts.",
    ),
    Case(
        "IN",
        "a IN (ARRAY[flag])",
        "line 1, column 8: operator does not exist: ARRAY<INTEGER> = ARRAY<BOOLEAN> (ARRAY[FLAG]). "
        "Hint: You might need to add explicit type casts.",
    ),
    Case(
        "CASE",
        "CASE WHEN flag THEN NULL ELSE NULL END",
        "line 1, column 18: Invalid Case expression. All case branches have NULL type.",
    ),
    Case(
        "ARRAY",
        "ARRAY[]",
        "line 1, column 1: Array constructor cannot be empty. Please supply at least one element.",
    ),
    Case("ARRAY", "ARRAY[i, 'x']", 'line 1, column 14: invalid input syntax for type INTEGER: "x".'),
    Case(
        "ARRAY",
        "ARRAY[NULL]",
        "line 1, column 1: Cannot construct an array with all NULL elements. CAST one of them.",
    ),
    Case(
        "MAP",
        "MAP()",
        "line 1, column 1: Map constructor cannot be empty. Please supply at least one key value pair.",
    ),
    Case(
        "MAP",
        "MAP('a' := NULL)",
        "line 1, column 12: Cannot construct a map with all NULL values; CAST one of them.",
    ),
    Case("STRUCT", "STRUCT(a := 1, A := 2)", "line 1, column 15: Duplicate field names found in STRUCT: A."),
    Case("COALESCE", "COALESCE()", "line 1, column 1: Function 'COALESCE' does not accept parameters ()."),
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
    Case(
        "LPAD",
        "LPAD(s, 3)",
        "line 1, column 13: Function 'LPAD' does not accept parameters (STRING, INTEGER): it takes 3 arguments, not 2.",
    ),
    Case(
        "UCASE",
        "UCASE()",
        "line 1, column 1: Function 'UCASE' does not accept parameters (): it takes 1 argument, not 0.",
    ),
]
