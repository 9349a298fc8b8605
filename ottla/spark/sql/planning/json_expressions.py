"""JSON into columns and back, as expressions of Spark SQL.

ksqlDB finds a field whatever its case is. Spark's parser does not, so that it is asked for each spelling that is
likely: as written in the statement, in lower case and in upper case. Times are milliseconds, dates are days, as in
ksqlDB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from ottla.spark.sql.sql_types import SqlType, quoted

CORRUPT = "__corrupt"


class Named(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def written(self) -> str: ...
    @property
    def type(self) -> SqlType: ...


def text(value: str) -> str:
    """A literal of Spark SQL."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
    return f"'{escaped}'"


def spellings(field: Named, others: Iterable[Named]) -> list[str]:
    if field.written == field.name and field.name != field.name.upper():
        return [field.name]  # it was quoted
    taken = {each.written for each in others if each is not field} | {
        each.name for each in others if each is not field
    }
    candidates = dict.fromkeys((field.written, field.name.lower(), field.name))
    return [each for each in candidates if each == field.written or each not in taken]


def raw_schema(fields: Sequence[Named], corrupt: bool = False) -> str:
    """The schema to parse JSON with: every spelling, and times as text, because they may be numbers."""
    columns = [
        f"{quoted(spelling)} {_raw_type(field.type)}"
        for field in fields
        for spelling in spellings(field, fields)
    ]
    if corrupt:
        columns.append(f"{CORRUPT} STRING")
    return ", ".join(columns)


def _raw_type(kind: SqlType) -> str:
    if kind.name in ("TIMESTAMP", "DATE"):
        return "STRING"
    if kind.name == "ARRAY" and kind.element is not None:
        return f"ARRAY<{_raw_type(kind.element)}>"
    if kind.name == "MAP" and kind.element is not None:
        return f"MAP<STRING,{_raw_type(kind.element)}>"
    if kind.name == "STRUCT":
        return f"STRUCT<{raw_schema(kind.fields)}>"
    return kind.ddl


def picked(parsed: str, field: Named, fields: Sequence[Named]) -> str:
    """A field of the parsed struct, in whichever spelling it came."""
    found = [f"{parsed}.{quoted(spelling)}" for spelling in spellings(field, fields)]
    value = found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"
    return decoded(value, field.type)


def decoded(value: str, kind: SqlType, depth: int = 0) -> str:
    """The value as its type, out of what the parser gave."""
    if kind.name == "TIMESTAMP":
        return (
            f"CASE WHEN {value} RLIKE '^-?[0-9]+$' THEN timestamp_millis(CAST({value} AS BIGINT)) "
            f"ELSE try_cast({value} AS TIMESTAMP) END"
        )
    if kind.name == "DATE":
        return (
            f"CASE WHEN {value} RLIKE '^-?[0-9]+$' THEN date_from_unix_date(CAST({value} AS INT)) "
            f"ELSE try_cast({value} AS DATE) END"
        )
    if not _differs(kind):
        return value
    if kind.name == "STRUCT":
        parts = ", ".join(
            f"{text(field.name)}, {_nested(value, field, kind.fields, depth)}" for field in kind.fields
        )
        return f"CASE WHEN {value} IS NULL THEN NULL ELSE named_struct({parts}) END"
    assert kind.element is not None
    variable = f"x{depth}"
    inner = decoded(variable, kind.element, depth + 1)
    if kind.name == "ARRAY":
        return f"transform({value}, {variable} -> {inner})"
    return f"transform_values({value}, (k{depth}, {variable}) -> {inner})"


def _nested(value: str, field: Named, fields: Sequence[Named], depth: int) -> str:
    found = [f"{value}.{quoted(spelling)}" for spelling in spellings(field, fields)]
    chosen = found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"
    return decoded(chosen, field.type, depth)


def _differs(kind: SqlType) -> bool:
    """Whether the parser's type is not the column's."""
    if kind.name in ("TIMESTAMP", "DATE"):
        return True
    if kind.element is not None:
        return _differs(kind.element)
    return any(spellings(each, kind.fields) != [each.name] or _differs(each.type) for each in kind.fields)


def encoded(value: str, kind: SqlType, depth: int = 0) -> str:
    """The value as it stands in JSON and in delimited text."""
    if kind.name == "TIMESTAMP":
        return f"unix_millis({value})"
    if kind.name == "DATE":
        return f"unix_date({value})"
    if not _has_times(kind):
        return value
    if kind.name == "STRUCT":
        parts = ", ".join(
            f"{text(each.name)}, {encoded(f'{value}.{quoted(each.name)}', each.type, depth)}"
            for each in kind.fields
        )
        return f"CASE WHEN {value} IS NULL THEN NULL ELSE named_struct({parts}) END"
    assert kind.element is not None
    variable = f"x{depth}"
    inner = encoded(variable, kind.element, depth + 1)
    if kind.name == "ARRAY":
        return f"transform({value}, {variable} -> {inner})"
    return f"transform_values({value}, (k{depth}, {variable}) -> {inner})"


def _has_times(kind: SqlType) -> bool:
    if kind.name in ("TIMESTAMP", "DATE"):
        return True
    if kind.element is not None:
        return _has_times(kind.element)
    return any(_has_times(each.type) for each in kind.fields)
