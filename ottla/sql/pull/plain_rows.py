"""Rows from records without Spark, for results that only name columns."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from ottla.spark.formats.value_format import quoted
from ottla.sql.planning.plan import Plan
from ottla.sql.pull.json_values import NeedsSpark, Unreadable, json_parser
from ottla.sql.pull.key_codec import KeyCodec, Odd, delimited, delimited_value
from ottla.sql.pull.table_index import Found
from ottla.sql.sources import Source
from ottla.sql.sql_types import SqlType

Row = tuple[Any, ...]
_DAY = date(1970, 1, 1)
_KAFKA_NUMBERS = {"INTEGER": ">i", "BIGINT": ">q", "DOUBLE": ">d"}


def named_columns(plan: Plan) -> list[str] | None:
    """Return the source columns of the result, or None if it contains other expressions."""
    select = plan.select
    if select.group_by or select.having is not None or select.window is not None:
        return None
    [(alias, source)] = plan.sources.items()
    names = [column.name for column in source.columns]
    names += ["ROWTIME", "ROWPARTITION", "ROWOFFSET", *source.window_columns]
    known = {f"{quoted(alias)}.{quoted(name)}": name for name in names}
    found = [known.get(output.sql) for output in plan.outputs]
    return None if None in found else [name for name in found if name is not None]


def named_types(plan: Plan) -> tuple[str, ...] | None:
    """Return the types of the result if it only names columns of one source."""
    names = named_columns(plan) if len(plan.sources) == 1 else None
    if names is None:
        return None
    [source] = plan.sources.values()
    types = {column.name: str(column.type) for column in source.columns} | {"ROWPARTITION": "INTEGER"}
    return tuple(types.get(name, "BIGINT") for name in names)


def plain_rows(source: Source, names: Sequence[str], found: Sequence[Found]) -> list[Row]:
    """Convert records to rows. Raises NeedsSpark if a value is not plain."""
    reader = _Reader(source)
    rows = []
    for record in found:
        columns = reader.columns(record)
        if columns is not None:
            rows.append(tuple(columns[name] for name in names))
    return rows


class _Reader:
    def __init__(self, source: Source) -> None:
        if source.value_format not in ("JSON", "DELIMITED", "KAFKA", "NONE"):
            raise NeedsSpark
        self._source = source
        self._codec = KeyCodec(source)
        self._types = {column.name: column.type for column in source.columns}
        self._json: Callable[[bytes], tuple[Any, ...]] | None = None

    def columns(self, record: Found) -> dict[str, Any] | None:
        """Return the columns by name, or None if the record is unreadable."""
        source = self._source
        try:
            keys, values = self._codec.values(record.key), self._values(record.value)
        except Unreadable:
            return None
        except Odd:
            raise NeedsSpark from None
        if keys is None:
            return None
        raw = dict(zip((column.name for column in source.keys), keys, strict=True))
        raw |= dict(zip((column.name for column in source.values), values, strict=True))
        time = record.timestamp_ms if source.timestamp is None else self._milliseconds(raw)
        if time is None or time < 0:
            return None
        found = {column.name: value_of(raw[column.name], column.type) for column in source.columns}
        found |= {"ROWTIME": time, "ROWPARTITION": record.partition, "ROWOFFSET": record.offset}
        if source.window is not None:
            found |= {"WINDOWSTART": record.start, "WINDOWEND": record.end}
        return found

    def _milliseconds(self, raw: dict[str, Any]) -> int | None:
        name = self._source.timestamp
        assert name is not None
        if self._types[name].name not in ("BIGINT", "TIMESTAMP"):
            raise NeedsSpark
        value: int | None = raw[name]
        return value

    def _values(self, value: bytes) -> Sequence[Any]:
        """Decode the value columns, with times as numbers."""
        columns, form = self._source.values, self._source.value_format
        if not columns:
            return ()
        if form == "JSON":
            if self._json is None:
                self._json = json_parser(columns, alone=self._source.is_unwrapped)
            return self._json(value)
        if form == "KAFKA":
            return (_kafka(value, columns[0].type),)
        if form == "DELIMITED":
            try:
                parts = delimited(value.decode(), self._source.value_delimiter, len(columns))
            except UnicodeDecodeError:
                raise NeedsSpark from None
            return [delimited_value(part, column.type) for part, column in zip(parts, columns, strict=True)]
        raise NeedsSpark


def _kafka(value: bytes, kind: SqlType) -> Any:
    form = _KAFKA_NUMBERS.get(kind.name)
    if form is not None:
        if len(value) != struct.calcsize(form):
            raise Unreadable
        return struct.unpack(form, value)[0]
    if kind.name == "BYTES":
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise NeedsSpark from None


def value_of(value: Any, kind: SqlType) -> Any:
    """Convert a value like PySpark, which returns timestamps in the local time zone."""
    if value is None:
        return None
    if kind.name == "TIMESTAMP":
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)
        return moment.astimezone().replace(tzinfo=None)
    if kind.name == "DATE":
        return _DAY + timedelta(days=value)
    if kind.name == "TIME":
        return (datetime(1970, 1, 1) + timedelta(milliseconds=value)).time()
    if kind.name == "STRUCT":
        return {field.name: value_of(value[field.name], field.type) for field in kind.fields}
    if kind.name == "ARRAY":
        assert kind.element is not None
        return [value_of(each, kind.element) for each in value]
    if kind.name == "MAP":
        assert kind.element is not None
        return {name: value_of(each, kind.element) for name, each in value.items()}
    return value
