"""Conversion of record values for aggregates, and of results for Arrow."""

from __future__ import annotations

import datetime
from typing import Any

from ottla.sql.sql_types import SqlType

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def plain(value: Any, kind: SqlType | None) -> Any:
    """Convert structs and maps to dictionaries, which can be compared and put into lists."""
    if value is None or kind is None:
        return value
    if kind.name == "STRUCT":
        values = value.values() if isinstance(value, dict) else value
        return {field.name: plain(each, field.type) for field, each in zip(kind.fields, values, strict=True)}
    if kind.name == "MAP":
        return {name: plain(each, kind.element) for name, each in dict(value).items()}
    if kind.name == "ARRAY":
        return [plain(each, kind.element) for each in value]
    return value


def for_python(value: Any, kind: SqlType | None) -> Any:
    """Convert values for user functions, including times to Python's types."""
    value = plain(value, kind)
    if value is None or kind is None or not isinstance(value, int):
        return value
    if kind.name == "TIMESTAMP":
        return _EPOCH + datetime.timedelta(microseconds=value)
    if kind.name == "DATE":
        return (_EPOCH + datetime.timedelta(days=value)).date()
    if kind.name == "TIME":
        return (_EPOCH + datetime.timedelta(microseconds=value // 1000)).time()
    return value


def for_arrow(value: Any, kind: SqlType | None) -> Any:
    """Convert maps to lists of pairs, as Arrow expects."""
    if value is None or kind is None:
        return value
    if kind.name == "MAP":
        return [(name, for_arrow(each, kind.element)) for name, each in value.items()]
    if kind.name == "ARRAY":
        return [for_arrow(each, kind.element) for each in value]
    if kind.name == "STRUCT" and isinstance(value, dict):
        return {field.name: for_arrow(value.get(field.name), field.type) for field in kind.fields}
    return value
