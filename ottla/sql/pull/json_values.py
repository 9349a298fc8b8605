"""JSON parsing without Spark, with the same parser and field spellings as the Spark source."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Any

from ottla.spark.formats.json_rows import BadJson, row_parser
from ottla.sql.planning.json_expressions import TIMES, spellings
from ottla.sql.sql_types import Field, SqlType

_NUMBER = re.compile(r"-?[0-9]+").fullmatch
_DAY_MS = 86_400_000


class Unreadable(Exception):
    """The value is not JSON or has the wrong type. Such records are skipped."""


class NeedsSpark(Exception):
    """Only Spark can interpret this value."""


def json_parser(columns: Sequence[Field], *, alone: bool = False) -> Callable[[bytes], tuple[Any, ...]]:
    """Return a parser for objects with these columns, or with `alone` for the bare value of one column.

    Times are numbers.
    """
    fields = [Field("k", "k", columns[0].type)] if alone else list(columns)
    parse = row_parser(raw_type(fields), UTC, lax=True)

    def read(data: bytes) -> tuple[Any, ...]:
        try:
            found = parse(b'{"k":%b}' % data if alone else data)
        except BadJson:
            raise Unreadable from None
        return tuple(_picked(found, field, fields) for field in fields)

    return read


def raw_type(fields: Sequence[Field]) -> Any:
    """Return the type that `json_expressions.raw_schema` writes as DDL."""
    from pyspark.sql import types

    found = types.StructType()
    for field in fields:
        for spelling in spellings(field, fields):
            found = found.add(spelling, _raw(field.type))
    return found


def _raw(kind: SqlType) -> Any:
    from pyspark.sql import types

    if kind.name == "STRUCT":
        return raw_type(kind.fields)
    if kind.element is not None:
        element = _raw(kind.element)
        return (
            types.ArrayType(element) if kind.name == "ARRAY" else types.MapType(types.StringType(), element)
        )
    if kind.name == "DECIMAL":
        return types.DecimalType(kind.precision, kind.scale)
    simple = {
        "BOOLEAN": types.BooleanType,
        "INTEGER": types.IntegerType,
        "BIGINT": types.LongType,
        "DOUBLE": types.DoubleType,
        "BYTES": types.BinaryType,
    }
    return simple.get(kind.name, types.StringType)()


def _picked(found: dict[str, Any], field: Field, fields: Sequence[Field]) -> Any:
    for spelling in spellings(field, fields):
        value = found.get(spelling)
        if value is not None:
            return _value(value, field.type)
    return None


def _value(value: Any, kind: SqlType) -> Any:
    if value is None:
        return None
    if kind.name in TIMES:
        if not _NUMBER(value):
            raise NeedsSpark
        number = int(value)
        return None if kind.name == "TIME" and not 0 <= number < _DAY_MS else number
    if kind.name == "STRUCT":
        return {field.name: _picked(value, field, kind.fields) for field in kind.fields}
    if kind.name == "ARRAY":
        assert kind.element is not None
        return [_value(each, kind.element) for each in value]
    if kind.name == "MAP":
        assert kind.element is not None
        return {name: _value(each, kind.element) for name, each in value}
    return value
