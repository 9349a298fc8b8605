"""Conversion between JSON and columns, as Spark SQL expressions.

ksqlDB matches field names case-insensitively and Spark's parser does not. So the parser gets each likely spelling: as
written in the statement, in lower case and in upper case. As in ksqlDB, times are milliseconds since 1970 or since
midnight, and dates are days.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.spark.formats.value_format import quoted
from ottla.sql.sql_types import Field, SqlType

CORRUPT = "__corrupt"

#: Milliseconds and days from year 1 to year 9999. Values outside become null instead of ending the query.
MOMENTS, DAYS = (-62_135_596_800_000, 253_402_300_799_999), (-719_162, 2_932_896)

#: Types that are numbers in JSON and delimited text: the conversion from the number, and to the number.
TIMES = {
    "TIMESTAMP": (
        f"CASE WHEN CAST({{0}} AS BIGINT) BETWEEN {MOMENTS[0]} AND {MOMENTS[1]} "
        "THEN timestamp_millis(CAST({0} AS BIGINT)) END",
        "unix_millis({})",
    ),
    "DATE": (
        f"CASE WHEN CAST({{0}} AS BIGINT) BETWEEN {DAYS[0]} AND {DAYS[1]} "
        "THEN date_from_unix_date(CAST({0} AS INT)) END",
        "unix_date({})",
    ),
    "TIME": (
        "CASE WHEN CAST({0} AS BIGINT) BETWEEN 0 AND 86399999 THEN time_from_millis(CAST({0} AS BIGINT)) END",
        "CAST(time_to_millis({}) AS INT)",
    ),
}


def text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
    return f"'{escaped}'"


def spellings(field: Field, fields: Sequence[Field]) -> list[str]:
    if field.written == field.name and field.name != field.name.upper():
        return [field.name]  # quoted names have one spelling
    taken = {name for each in fields if each is not field for name in (each.written, each.name)}
    candidates = dict.fromkeys((field.written, field.name.lower(), field.name))
    return [each for each in candidates if each == field.name or each not in taken]


def raw_schema(fields: Sequence[Field], corrupt: bool = False) -> str:
    """Return the schema for parsing JSON, with every spelling. Times are text because they may be numbers."""
    columns = [
        f"{quoted(spelling)} {_raw_type(field.type)}"
        for field in fields
        for spelling in spellings(field, fields)
    ]
    if corrupt:
        columns.append(f"{CORRUPT} STRING")
    return ", ".join(columns)


def _raw_type(kind: SqlType) -> str:
    if kind.name in TIMES:
        return "STRING"
    if kind.element is not None:
        return f"{kind.name}<{'STRING,' if kind.name == 'MAP' else ''}{_raw_type(kind.element)}>"
    if kind.name == "STRUCT":
        return f"STRUCT<{raw_schema(kind.fields)}>"
    return kind.ddl


def picked(parsed: str, field: Field, fields: Sequence[Field], depth: int = 0) -> str:
    found = [f"{parsed}.{quoted(spelling)}" for spelling in spellings(field, fields)]
    value = found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"
    return decoded(value, field.type, depth)


def decoded(value: str, kind: SqlType, depth: int = 0) -> str:
    if kind.name in TIMES:
        from_number, _ = TIMES[kind.name]
        return (
            f"CASE WHEN {value} RLIKE '^-?[0-9]+$' THEN {from_number.format(value)} "
            f"ELSE try_cast({value} AS {kind.name}) END"
        )
    if not _differs(kind):
        return value
    members = [(field.name, picked(value, field, kind.fields, depth)) for field in kind.fields]
    return _rebuilt(value, kind, members, decoded, depth)


def _rebuilt(
    value: str, kind: SqlType, members: list[tuple[str, str]], inner: Callable[..., str], depth: int
) -> str:
    if kind.name == "STRUCT":
        parts = ", ".join(f"{text(name)}, {member}" for name, member in members)
        return f"CASE WHEN {value} IS NULL THEN NULL ELSE named_struct({parts}) END"
    variable = f"x{depth}"
    changed = inner(variable, kind.element, depth + 1)
    if kind.name == "ARRAY":
        return f"transform({value}, {variable} -> {changed})"
    return f"transform_values({value}, (k{depth}, {variable}) -> {changed})"


def _differs(kind: SqlType) -> bool:
    if kind.element is not None:
        return _differs(kind.element)
    return kind.name in TIMES or any(
        spellings(each, kind.fields) != [each.name] or _differs(each.type) for each in kind.fields
    )


def encoded(value: str, kind: SqlType, depth: int = 0) -> str:
    if kind.name in TIMES:
        return TIMES[kind.name][1].format(value)
    if not _has_times(kind):
        return value
    members = [(each.name, encoded(f"{value}.{quoted(each.name)}", each.type, depth)) for each in kind.fields]
    return _rebuilt(value, kind, members, encoded, depth)


def _has_times(kind: SqlType) -> bool:
    if kind.element is not None:
        return _has_times(kind.element)
    return kind.name in TIMES or any(_has_times(each.type) for each in kind.fields)
