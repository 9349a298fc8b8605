"""Row schemas: maps column types to Connect types like Confluent's connector."""

from __future__ import annotations

import datetime as dt
import decimal
import logging
from collections.abc import Callable, Sequence
from typing import Any

from ottla.connect.connectors.jdbc.dialects.dialect import Column, Kind
from ottla.connect.data import logical
from ottla.connect.data.schema import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    Schema,
    SchemaBuilder,
)
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError

log = logging.getLogger(__name__)

_PLAIN = {
    Kind.BOOLEAN: BOOLEAN,
    Kind.TINYINT: INT8,
    Kind.SMALLINT: INT16,
    Kind.INTEGER: INT32,
    Kind.BIGINT: INT64,
    Kind.REAL: FLOAT32,
    Kind.DOUBLE: FLOAT64,
    Kind.VARCHAR: STRING,
    Kind.VARBINARY: BYTES,
    Kind.DATE: logical.DATE_SCHEMA,
    Kind.TIME: logical.TIME_SCHEMA,
    Kind.TIMESTAMP: logical.TIMESTAMP_SCHEMA,
}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)

Converter = Callable[[Any], Any]


class RowSchema:
    """Converts rows to structs."""

    def __init__(
        self,
        name: str | None,
        columns: Sequence[Column],
        *,
        numeric_mapping: str = "none",
        timestamp_granularity: str = "connect_logical",
    ) -> None:
        builder = SchemaBuilder(name)
        self._converters: list[tuple[int, Converter | None]] = []
        for number, column in enumerate(columns):
            found = _schema_of(column, numeric_mapping, timestamp_granularity)
            if found is None:
                log.warning(
                    "Column %s is left out: Connect has no schema for type %s.", column.name, column.type_name
                )
                continue
            schema, convert = found
            builder.field(column.name, schema.as_optional(column.optional))
            self._converters.append((number, convert))
        self.schema = builder.build()

    def struct(self, row: Sequence[Any]) -> Struct:
        made = Struct(self.schema)
        made.values = [
            value if convert is None or value is None else convert(value)
            for value, convert in ((row[number], convert) for number, convert in self._converters)
        ]
        return made


def _schema_of(
    column: Column, numeric_mapping: str, timestamp_granularity: str
) -> tuple[Schema, Converter | None] | None:
    if column.kind is None:
        return None
    if column.kind is Kind.NUMERIC:
        return _numeric(column, numeric_mapping)
    if column.kind is Kind.TIMESTAMP and timestamp_granularity != "connect_logical":
        schema, printed = _GRANULARITIES[timestamp_granularity]
        read = column.convert
        return schema, lambda value: printed(read(value) if read is not None else value)
    if column.kind is Kind.BOOLEAN and column.convert is None:
        return BOOLEAN, bool
    return _PLAIN[column.kind], column.convert


def _whole_number(precision: int) -> Schema:
    return INT64 if precision > 9 else INT32 if precision > 4 else INT16 if precision > 2 else INT8


def _numeric(column: Column, mapping: str) -> tuple[Schema, Converter | None]:
    precision, scale = column.precision, column.scale
    if precision == 0 and mapping in ("best_fit", "best_fit_eager_double"):
        # Declared without precision: the column may hold any number.
        return FLOAT64, float
    fits = 0 < precision < 19
    if fits and scale == 0 and mapping != "none":
        return _whole_number(precision), int
    if scale > 0 and (mapping == "best_fit_eager_double" or (mapping == "best_fit" and fits)):
        return FLOAT64, float
    return logical.decimal_schema(scale), _scaled(column)


def _scaled(column: Column) -> Converter:
    read, unit = column.convert, decimal.Decimal(1).scaleb(-column.scale)
    exact = decimal.Context(prec=1000, traps=[decimal.InvalidOperation, decimal.Inexact])

    def convert(value: Any) -> decimal.Decimal:
        if read is not None:
            value = read(value)
        try:
            return decimal.Decimal(value).quantize(unit, context=exact)
        except decimal.DecimalException:
            raise DataError(
                f"Column {column.name} holds {value}, which is not a number with {column.scale} digits after the "
                "point as its type says: set numeric.mapping=best_fit, or cast it in a query."
            ) from None

    return convert


def _micros(value: dt.datetime) -> int:
    return (value - _EPOCH) // _MICROSECOND


_GRANULARITIES: dict[str, tuple[Schema, Callable[[dt.datetime], Any]]] = {
    "micros_long": (INT64, _micros),
    "micros_string": (STRING, lambda value: str(_micros(value))),
    "micros_iso_datetime_string": (STRING, lambda value: value.strftime("%Y-%m-%dT%H:%M:%S.%f")),
    "nanos_long": (INT64, lambda value: _micros(value) * 1000),
    "nanos_string": (STRING, lambda value: str(_micros(value) * 1000)),
    "nanos_iso_datetime_string": (STRING, lambda value: value.strftime("%Y-%m-%dT%H:%M:%S.%f000")),
}
GRANULARITIES = ("connect_logical", *_GRANULARITIES)
