"""Conversions between the types of binary formats and SQL types, as Spark SQL expressions.

Arrow types describe the output of a decoder and the input of an encoder. Fields have their names from the schema, times
of day are numbers, and Protobuf dates are messages.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ottla.spark.formats.column_tree import sql_type
from ottla.spark.formats.json_types import TIMESTAMP
from ottla.spark.formats.value_format import quoted
from ottla.sql.planning.json_expressions import TIMES, spellings, text
from ottla.sql.sql_types import Field, SqlType

#: Fields of google.type.Date, google.type.TimeOfDay and confluent.type.Decimal.
DATE = pa.struct([("year", pa.int32()), ("month", pa.int32()), ("day", pa.int32())])
TIME_OF_DAY = pa.struct([(each, pa.int32()) for each in ("hours", "minutes", "seconds", "nanos")])
DECIMAL = pa.struct([("value", pa.binary()), ("precision", pa.int64()), ("scale", pa.int32())])
#: Maximum digits of a DECIMAL in a Protobuf message: as many as fit 64 bits.
MOST_DIGITS = 18

_SIMPLE = {
    "BOOLEAN": pa.bool_(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BYTES": pa.binary(),
    "TIMESTAMP": TIMESTAMP,
}


# Candidate fields for a column


def asked_for(
    fields: Sequence[Field], known: pa.DataType | None, form: str, names: Sequence[str] | None = None
) -> pa.DataType:
    """Return the type to request from a decoder: every likely spelling of each field, or the spelling of `known`."""
    found: dict[str, pa.DataType] = {}
    for field in fields:
        there = _named_like(field.name, known)
        spelled = [each.name for each in there] or spellings(field, fields)
        for name in spelled:
            hint = next((each.type for each in there if each.name == name), None)
            found.setdefault(name, asked_type(field.type, hint, form))
    return pa.struct(list(found.items()))


def asked_type(kind: SqlType, known: pa.DataType | None, form: str) -> pa.DataType:
    if kind.name == "STRUCT":
        return asked_for(
            kind.fields, known if known is not None and pa.types.is_struct(known) else None, form
        )
    if kind.name == "ARRAY":
        assert kind.element is not None
        inner = known.value_type if known is not None and pa.types.is_list(known) else None
        return pa.list_(pa.field("element", asked_type(kind.element, inner, form)))
    if kind.name == "MAP":
        assert kind.element is not None
        if known is not None and _is_entries(known):
            value = asked_type(kind.element, known.value_type.field(1).type, form)
            entry = pa.struct([("key", pa.string()), ("value", value)])
            return pa.list_(pa.field("element", entry))
        inner = known.item_type if known is not None and pa.types.is_map(known) else None
        key = known.key_type if known is not None and pa.types.is_map(known) else pa.string()
        return pa.map_(key, asked_type(kind.element, inner, form))
    if known is not None and (form != "AVRO" or kind.name == "TIME" or _becomes_text(known, kind)):
        return (
            known  # messages have exact types and are cast later, and Avro does not turn numbers into strings
        )
    if kind.name == "DECIMAL":
        return DECIMAL if form != "AVRO" else pa.decimal128(kind.precision, kind.scale)
    if kind.name == "DATE":
        return DATE if form != "AVRO" else pa.date32()
    if kind.name == "TIME":
        return TIME_OF_DAY if form != "AVRO" else pa.int32()
    return _SIMPLE[kind.name]


def _becomes_text(known: pa.DataType, kind: SqlType) -> bool:
    is_number = pa.types.is_integer(known) or pa.types.is_floating(known)
    return kind.name == "STRING" and (is_number or pa.types.is_boolean(known))


def _named_like(name: str, struct: pa.DataType | None) -> list[pa.Field]:
    """Return fields that match case-insensitively, with exact matches first."""
    if struct is None or not pa.types.is_struct(struct):
        return []
    like = [each for each in struct if each.name.upper() == name.upper()]
    return sorted(like, key=lambda each: each.name != name)


def field_like(struct: pa.DataType, name: str) -> pa.Field | None:
    return next(iter(_named_like(name, struct)), None)


def _is_entries(kind: pa.DataType) -> bool:
    """Return True for Connect's Avro encoding of a map: an array of keys and values."""
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return False
    return [each.name for each in kind.value_type] == ["key", "value"]


# To SQL columns


def decoded(value: str, found: pa.DataType, kind: SqlType, depth: int = 0) -> str:
    if kind.name == "STRUCT":
        parts = ", ".join(
            f"{text(field.name)}, {picked(value, found, field, depth)}" for field in kind.fields
        )
        return f"CASE WHEN {value} IS NULL THEN NULL ELSE named_struct({parts}) END"
    if kind.name == "ARRAY":
        assert kind.element is not None
        inner = decoded(f"x{depth}", found.value_type, kind.element, depth + 1)
        return value if inner == f"x{depth}" else f"transform({value}, x{depth} -> {inner})"
    if kind.name == "MAP":
        return _decoded_map(value, found, kind, depth)
    if kind.name == "TIME":
        return _decoded_time(value, found)
    if pa.types.is_struct(found):
        if kind.name == "DATE":
            return f"make_date(nullif({value}.year, 0), {value}.month, {value}.day)"
        if kind.name == "DECIMAL":
            return _decoded_decimal(value, kind)
    return value if sql_type(found) == kind.ddl.replace(",", ", ") else f"CAST({value} AS {kind.ddl})"


def picked(struct: str, found: pa.DataType, field: Field, depth: int = 0) -> str:
    there = [
        decoded(f"{struct}.{quoted(each.name)}", each.type, field.type, depth)
        for each in _named_like(field.name, found)
    ]
    if not there:
        return f"CAST(NULL AS {field.type.ddl})"
    return there[0] if len(there) == 1 else f"coalesce({', '.join(there)})"


def _decoded_map(value: str, found: pa.DataType, kind: SqlType, depth: int) -> str:
    assert kind.element is not None
    if _is_entries(found):
        inner = decoded(f"x{depth}.value", found.value_type.field(1).type, kind.element, depth + 1)
        pair = f"named_struct('key', x{depth}.key, 'value', {inner})"
        # Spark maps cannot have null keys.
        return f"map_from_entries(transform(filter({value}, x{depth} -> x{depth}.key IS NOT NULL), x{depth} -> {pair}))"
    if not pa.types.is_string(found.key_type):
        value = f"transform_keys({value}, (k{depth}, v{depth}) -> CAST(k{depth} AS STRING))"
    inner = decoded(f"x{depth}", found.item_type, kind.element, depth + 1)
    return value if inner == f"x{depth}" else f"transform_values({value}, (k{depth}, x{depth}) -> {inner})"


def _decoded_time(value: str, found: pa.DataType) -> str:
    if pa.types.is_struct(found):
        millis = (
            f"(CAST({value}.hours AS BIGINT) * 3600 + {value}.minutes * 60 + {value}.seconds) * 1000 "
            f"+ {value}.nanos DIV 1000000"
        )
        return TIMES["TIME"][0].format(f"({millis})")
    return TIMES["TIME"][0].format(f"({value} DIV 1000)" if found == pa.int64() else value)


def _decoded_decimal(value: str, kind: SqlType) -> str:
    """Decode a two's complement number of up to eight bytes."""
    raw = f"hex({value}.value)"
    padded = f"lpad({raw}, 16, CASE WHEN {raw} >= '80' THEN 'F' ELSE '0' END)"
    number = f"CAST(conv({padded}, 16, -10) AS DECIMAL(38, 0))"
    scale = f"coalesce({value}.scale, 0)"
    divided = f"CAST({number} AS DECIMAL(38, 18)) / CAST(power(10, {scale}) AS DECIMAL(20, 0))"
    return f"CASE WHEN octet_length({value}.value) BETWEEN 1 AND 8 THEN CAST({divided} AS {kind.ddl}) END"


# From SQL columns


def encoded(value: str, wanted: pa.DataType, kind: SqlType, depth: int = 0) -> str:
    """Convert the value for an encoder. `wanted` is the corresponding type in the schema."""
    if kind.name == "STRUCT":
        parts = []
        for field in kind.fields:
            target = field_like(wanted, field.name)
            if target is not None:
                inner = encoded(f"{value}.{quoted(field.name)}", target.type, field.type, depth)
                parts.append(f"{text(target.name)}, {inner}")
        return f"CASE WHEN {value} IS NULL THEN NULL ELSE named_struct({', '.join(parts)}) END"
    if kind.name == "ARRAY":
        assert kind.element is not None
        inner = encoded(f"x{depth}", wanted.value_type, kind.element, depth + 1)
        return value if inner == f"x{depth}" else f"transform({value}, x{depth} -> {inner})"
    if kind.name == "MAP":
        return _encoded_map(value, wanted, kind, depth)
    if kind.name == "TIME":
        if pa.types.is_struct(wanted):
            return _time_message(value)
        millis = TIMES["TIME"][1].format(value)
        return millis if wanted == pa.int32() else f"CAST({millis} AS BIGINT) * 1000"
    if pa.types.is_struct(wanted):
        return _date_message(value) if kind.name == "DATE" else _decimal_message(value, kind)
    return (
        value if sql_type(wanted) == kind.ddl.replace(",", ", ") else f"CAST({value} AS {sql_type(wanted)})"
    )


def _encoded_map(value: str, wanted: pa.DataType, kind: SqlType, depth: int) -> str:
    assert kind.element is not None
    is_entries = _is_entries(wanted)
    item = wanted.value_type.field(1).type if is_entries else wanted.item_type
    inner = encoded(f"x{depth}", item, kind.element, depth + 1)
    if inner != f"x{depth}":
        value = f"transform_values({value}, (k{depth}, x{depth}) -> {inner})"
    if is_entries:
        return f"map_entries({value})"
    if not pa.types.is_string(wanted.key_type):
        key = sql_type(wanted.key_type)
        value = f"transform_keys({value}, (k{depth}, v{depth}) -> CAST(k{depth} AS {key}))"
    return value


def _date_message(value: str) -> str:
    return (
        f"CASE WHEN {value} IS NOT NULL THEN "
        f"named_struct('year', year({value}), 'month', month({value}), 'day', day({value})) END"
    )


def _time_message(value: str) -> str:
    millis = TIMES["TIME"][1].format(value)
    return (
        f"CASE WHEN {value} IS NOT NULL THEN named_struct('hours', CAST({millis} DIV 3600000 AS INT), "
        f"'minutes', CAST({millis} DIV 60000 % 60 AS INT), 'seconds', CAST({millis} DIV 1000 % 60 AS INT), "
        f"'nanos', CAST({millis} % 1000 * 1000000 AS INT)) END"
    )


def _decimal_message(value: str, kind: SqlType) -> str:
    whole = f"CAST({value} * {10**kind.scale} AS BIGINT)"
    return (
        f"CASE WHEN {value} IS NOT NULL THEN named_struct('value', unhex(lpad(hex({whole}), 16, '0')), "
        f"'precision', CAST({kind.precision} AS BIGINT), 'scale', CAST({kind.scale} AS INT)) END"
    )
