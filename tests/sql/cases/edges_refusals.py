"""Statements that ksqlDB refuses: ambiguous arguments, mixed types, untyped nulls, and numbers beyond BIGINT."""

from __future__ import annotations

from tests.sql.cases.case import Case, refused

_S = (
    "CREATE STREAM s (k STRING KEY, i INT, l BIGINT, x DOUBLE, d DECIMAL(4, 2), b STRING, f BOOLEAN, dt DATE, t TIME, "
    "ts TIMESTAMP, a ARRAY<INT>, m MAP<STRING, INT>) WITH (kafka_topic='s', partitions=1);"
)


def _expression(grouped: str, expression: str, reason: str) -> Case:
    return refused(grouped, expression, f"{_S}CREATE STREAM o AS SELECT k, {expression} AS e FROM s;", reason)


def _condition(expression: str, reason: str) -> Case:
    return refused(
        "conditions", expression, f"{_S}CREATE STREAM o AS SELECT k, i FROM s WHERE {expression};", reason
    )


_AMBIGUOUS = "cannot be resolved due to ambiguous method parameters"
_NOT_ACCEPTED = "does not accept parameters"

_CHOICES = [
    _expression("GREATEST and LEAST", f"{name}({arguments})", f"Function '{name}' {reason}")
    for name in ("GREATEST", "LEAST")
    for arguments, reason in (
        ("i, l", f"{_AMBIGUOUS} (INTEGER, BIGINT)"),
        ("l, i, NULL", f"{_AMBIGUOUS} (BIGINT, INTEGER, null)"),
        ("i, d", f"{_AMBIGUOUS} (INTEGER, DECIMAL(4, 2))"),
        ("i, l, d", f"{_AMBIGUOUS} (INTEGER, BIGINT, DECIMAL(4, 2))"),
        ("NULL", f"{_AMBIGUOUS} (null)"),
        ("NULL, NULL, NULL", f"{_AMBIGUOUS} (null, null, null)"),
        ("", f"{_NOT_ACCEPTED} ()"),
        ("*", f"{_NOT_ACCEPTED} (*)"),
        ("b, i", f"{_NOT_ACCEPTED} (STRING, INTEGER)"),
        ("f, b", f"{_NOT_ACCEPTED} (BOOLEAN, STRING)"),
        ("dt, b", f"{_NOT_ACCEPTED} (DATE, STRING)"),
        ("dt, t", f"{_NOT_ACCEPTED} (DATE, TIME)"),
        ("i, dt", f"{_NOT_ACCEPTED} (INTEGER, DATE)"),
    )
]

_MOVED = [
    _expression("times", f"{name}({unit}, {amount}, {moment})", f"Function '{name}' {_NOT_ACCEPTED}")
    for name, own, other in (
        ("TIMEADD", "t", "ts"),
        ("TIMESUB", "t", "dt"),
        ("TIMESTAMPADD", "ts", "t"),
        ("TIMESTAMPSUB", "ts", "dt"),
        ("DATEADD", "dt", "ts"),
        ("DATESUB", "dt", "t"),
    )
    for unit, amount, moment in (
        ("HOURS", "1", other),
        ("HOURS", "1", "i"),
        ("HOURS", "1", "b"),
        ("HOURS", "'1'", own),
        ("HOURS", "x", own),
        ("HOURS", "f", own),
        ("FORTNIGHTS", "1", own),
    )
]

_NUMBERS = [
    _expression("literals", written, "Invalid numeric literal")
    for written in (
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999",
        "i + 9223372036854775808",
    )
]

_NULLS = [
    *(
        _expression("null", written, "Unsupported arithmetic types")
        for written in ("1 + NULL", "NULL + 1", "i - NULL", "NULL * x", "d / NULL", "NULL % l", "NULL + NULL")
    ),
    _expression("null", "NULL", "Can't infer a type of null"),
    _expression("null", "(NULL)", "Can't infer a type of null"),
    refused("null", "in a table", f"{_S}CREATE TABLE o AS SELECT k, NULL AS n, COUNT(*) AS c FROM s GROUP BY k;",
            "Can't infer a type of null"),
    refused("null", "in a push query", f"{_S}SELECT NULL FROM s EMIT CHANGES LIMIT 1;", "Can't infer a type of null"),
]  # fmt: skip

_CONDITIONS = [
    _condition(written, reason)
    for written, reason in (
        ("i IN (NULL)", "IN (NULL) is never true"),
        ("b IN (NULL, NULL)", "IN (NULL) is never true"),
        ("i BETWEEN 1 AND 'x'", "Cannot compare I (INTEGER) to 'x' (STRING) with LESS_THAN_OR_EQUAL"),
        ("b BETWEEN 1 AND 'x'", "Cannot compare B (STRING) to 1 (INTEGER) with GREATER_THAN_OR_EQUAL"),
        ("f BETWEEN 1 AND 2", "Cannot compare F (BOOLEAN) to 1 (INTEGER)"),
        ("i NOT BETWEEN 'a' AND 'b'", "Cannot compare I (INTEGER) to 'a' (STRING)"),
        ("x BETWEEN NULL AND 2", "Comparison with NULL not supported"),
        ("i LIKE 'x'", "Like condition must be between strings"),
        ("b LIKE 12", "Like condition must be between strings"),
        ("b NOT LIKE 12", "Like condition must be between strings"),
        ("i AND f", "should evaluate to boolean but is INTEGER"),
        ("f AND 'x'", "should evaluate to boolean but is STRING"),
        ("f OR i", "should evaluate to boolean but is INTEGER"),
        ("NOT i", "should evaluate to boolean but is INTEGER"),
        ("NOT b", "should evaluate to boolean but is STRING"),
        ("i", "Should evaluate to boolean"),
        ("b", "Should evaluate to boolean"),
        ("i = 'x'", "Cannot compare I (INTEGER) to 'x' (STRING)"),
        ("f > 1", "Cannot compare F (BOOLEAN) to 1 (INTEGER)"),
        ("a = 1", "Cannot compare A (ARRAY<INTEGER>) to 1 (INTEGER)"),
        ("m < m", "Cannot compare M (MAP<STRING, INTEGER>)"),
        ("i = NULL", "Comparison with NULL not supported"),
        ("NULL <> b", "Comparison with NULL not supported"),
        ("ROWTIME > 'yesterday'", "Cannot compare ROWTIME (BIGINT) to 'yesterday' (STRING)"),
    )
]

_CASE = [
    _expression("CASE", written, reason)
    for written, reason in (
        ("CASE WHEN i > 1 THEN 1 ELSE 'x' END", "Type for all 'THEN' clauses should be the same"),
        ("CASE WHEN i > 1 THEN f WHEN i > 0 THEN i END", "Type for all 'THEN' clauses should be the same"),
        ("CASE WHEN i > 1 THEN a ELSE m END", "Type for all 'THEN' clauses should be the same"),
        ("CASE WHEN i THEN 1 END", "WHEN operand type should be boolean"),
        ("CASE WHEN b THEN 1 ELSE 2 END", "WHEN operand type should be boolean"),
        ("CASE WHEN f THEN NULL END", "All case branches have NULL type"),
    )
]

_REPLACED = [
    refused(
        "CREATE OR REPLACE",
        f"source {kind.lower()}",
        f"CREATE OR REPLACE SOURCE {kind} s (k INT {key}, a INT) WITH (kafka_topic='s', partitions=1);",
        f"CREATE OR REPLACE is not supported on source {kind.lower()}s",
    )
    for kind, key in (("STREAM", "KEY"), ("TABLE", "PRIMARY KEY"))
] + [
    refused(
        "CREATE OR REPLACE",
        f"of a source {kind.lower()}",
        f"CREATE SOURCE {kind} s (k INT {key}, a INT) WITH (kafka_topic='s', partitions=1);"
        f"CREATE OR REPLACE {kind} s (k INT {key}, a INT, b INT) WITH (kafka_topic='s', partitions=1);",
        f"CREATE OR REPLACE is not supported on source {kind.lower()}s",
    )
    for kind, key in (("STREAM", "KEY"), ("TABLE", "PRIMARY KEY"))
]

_UNKNOWN = [
    refused(
        "GROUP BY",
        f"an unknown aggregate, {call}",
        f"{_S}CREATE TABLE o AS SELECT k, {call} AS e FROM s GROUP BY k;",
        f"Can't find any functions with the name '{call.partition('(')[0]}'",
    )
    for call in ("NOSUCH(i)", "MEDIAN(x)", "COUNTT(*)")
]

CASES = [*_CHOICES, *_MOVED, *_NUMBERS, *_NULLS, *_CONDITIONS, *_CASE, *_REPLACED, *_UNKNOWN]
