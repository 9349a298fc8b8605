"""Conversion between record keys or values and columns, as Spark SQL over `key` and `value`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ottla.spark.formats.value_format import quoted
from ottla.sql.parsing.statements import ColumnDefinition
from ottla.sql.planning.json_expressions import (
    CORRUPT,
    TIMES,
    decoded,
    encoded,
    picked,
    raw_schema,
    text,
)
from ottla.sql.registered.codecs import PartCodec
from ottla.sql.registered.formats import FRAME_BYTES
from ottla.sql.sources import Source
from ottla.sql.sql_types import Field

_PERMISSIVE = f"'mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT}'"


@dataclass(frozen=True)
class Decoding:
    """`columns` are computed from `parsed`. Rows are unreadable unless `valid` is true."""

    parsed: str | None
    columns: dict[str, str]
    valid: str | None


def decode(columns: Sequence[ColumnDefinition], form: str, raw: str, parsed: str, delimiter: str) -> Decoding:
    """Decode a binary column named `raw`. `parsed` is the name for the intermediate result."""
    if not columns or form == "NONE":
        return Decoding(None, {}, None)
    if form == "KAFKA":
        [column] = columns
        value = _kafka_decoded(raw, column)
        return Decoding(None, {column.name: value}, f"({raw} IS NULL OR {value} IS NOT NULL)")
    valid = f"{parsed}.{CORRUPT} IS NULL"
    if form == "DELIMITED":
        schema = ", ".join(
            f"{quoted(each.name)} {'STRING' if each.type.name in (*TIMES, 'BYTES') else each.type.ddl}"
            for each in columns
        )
        return Decoding(
            f"from_csv(CAST({raw} AS STRING), {text(f'{schema}, {CORRUPT} STRING')}, "
            f"map({_PERMISSIVE}, 'sep', {text(delimiter)}, 'escape', '\"'))",
            {each.name: _delimited_decoded(f"{parsed}.{quoted(each.name)}", each) for each in columns},
            valid,
        )
    parsed_json = _from_json(f"CAST({raw} AS STRING)", columns)
    return Decoding(parsed_json, {each.name: picked(parsed, each, columns) for each in columns}, valid)


def _delimited_decoded(value: str, column: ColumnDefinition) -> str:
    if column.type.name == "STRING":
        return f"nullif({value}, '')"  # ksqlDB does not distinguish empty text from null
    return f"unbase64({value})" if column.type.name == "BYTES" else decoded(value, column.type)


def _delimited_encoded(column: ColumnDefinition) -> str:
    name = quoted(column.name)
    if column.type.name == "DECIMAL" and column.type.scale > 6:
        return _plain_decimal(name, column.type.scale)
    return f"base64({name})" if column.type.name == "BYTES" else encoded(name, column.type)


def _plain_decimal(value: str, scale: int) -> str:
    """Write a decimal without an exponent, which Spark uses for numbers below 0.000001."""
    whole = f"CAST(abs({value}) * CAST('1e{scale}' AS DECIMAL({min(scale + 1, 38)},0)) AS DECIMAL(38,0))"
    small = f"concat(IF({value} < 0, '-', ''), '0.', lpad(CAST({whole} AS STRING), {scale}, '0'))"
    return f"CASE WHEN CAST({value} AS STRING) LIKE '%E%' THEN {small} ELSE CAST({value} AS STRING) END"


def _from_json(written: str, columns: Sequence[ColumnDefinition]) -> str:
    return f"from_json({written}, {text(raw_schema(columns, corrupt=True))}, map({_PERMISSIVE}))"


def _decode_alone(column: ColumnDefinition, raw: str, parsed: str) -> Decoding:
    """Decode JSON that is the bare value of one column. Wrap it in an object for the parser."""
    alone = ColumnDefinition("k", "k", column.type)
    return Decoding(
        _from_json(f"concat('{{\"k\":', CAST({raw} AS STRING), '}}')", [alone]),
        {column.name: picked(parsed, alone, [alone])},
        f"{parsed}.{CORRUPT} IS NULL",
    )


def _encode_alone(column: ColumnDefinition) -> str:
    whole = _to_json([("k", column)])
    value = f"CAST(substring({whole}, 6, length({whole}) - 6) AS BINARY)"
    return f"CASE WHEN {quoted(column.name)} IS NULL THEN NULL ELSE {value} END"


def decode_key(source: Source, raw: str, parsed: str, codec: PartCodec | None = None) -> Decoding:
    keys = source.keys
    if codec is not None:
        return _decode_registered(codec, raw, parsed)
    if source.key_format == "JSON" and len(keys) == 1:
        return _decode_alone(keys[0], raw, parsed)
    return decode(keys, source.key_format, raw, parsed, source.key_delimiter)


def decode_value(source: Source, raw: str, parsed: str, codec: PartCodec | None = None) -> Decoding:
    if codec is not None:
        return _decode_registered(codec, raw, parsed)
    if source.is_unwrapped:
        return _decode_alone(source.values[0], raw, parsed)
    return decode(source.values, source.value_format, raw, parsed, source.value_delimiter)


def _decode_registered(codec: PartCodec, raw: str, parsed: str) -> Decoding:
    if codec.is_binary:
        valid = f"({raw} IS NULL OR {parsed} IS NOT NULL)"
        return Decoding(f"{codec.decoder}({raw})", codec.columns(parsed), valid)
    written = unframed(raw)
    found = (
        _decode_alone(_column(codec.fields[0]), written, parsed)
        if codec.bare
        else decode([_column(each) for each in codec.fields], "JSON", written, parsed, "")
    )
    return Decoding(
        found.parsed, found.columns, f"({raw} IS NULL OR ({written} IS NOT NULL AND {found.valid}))"
    )


def _column(field: Field) -> ColumnDefinition:
    return ColumnDefinition(field.name, field.written, field.type)


def unframed(raw: str) -> str:
    """Return the bytes after the schema id, or null without a schema id."""
    is_framed = f"hex(substring({raw}, 1, 1)) = '00'"
    return f"CASE WHEN {is_framed} THEN substring({raw}, {FRAME_BYTES + 1}, octet_length({raw})) END"


def _encode_registered(codec: PartCodec, plain: str) -> str:
    """Encode a value with its schema. `plain` is its JSON."""
    if codec.is_binary:
        return codec.encode_expression()
    return f"concat(unhex('{codec.frame.hex()}'), {plain})"


def encode_value(source: Source, codec: PartCodec | None = None) -> str:
    form = "JSON" if source.value_format == "JSON_SR" else source.value_format
    if codec is not None and codec.is_binary:
        value = codec.encode_expression()
        if codec.bare:
            value = f"CASE WHEN {quoted(codec.fields[0].name)} IS NOT NULL THEN {value} END"
        return value
    if source.is_unwrapped:
        plain = _encode_alone(source.values[0])
    elif codec is not None:
        named = [(codec.name_in_json(each), each) for each in source.values]
        plain = f"CAST({_to_json(named)} AS BINARY)"
    else:
        plain = _encode(source.values, form, source.value_delimiter)
    return plain if codec is None else _encode_registered(codec, plain)


def encode_key(
    source: Source,
    window_start: str,
    window_end: str,
    codec: PartCodec | None = None,
    *,
    is_new: bool = False,
) -> str:
    """Encode the key. Window bounds follow the key of a windowed table, as in Kafka Streams.

    With `is_new` the query created the key: if all columns are null, write a key of nulls instead of a null key.
    """
    keys = source.keys
    nothing = " AND ".join(f"{quoted(each.name)} IS NULL" for each in keys)
    form = "JSON" if source.key_format == "JSON_SR" else source.key_format
    if not keys:
        key = "CAST(NULL AS BINARY)"
    elif codec is not None:
        key = _encode_alone(keys[0]) if codec.bare else _encode(keys, "JSON", "")
        key = _encode_registered(codec, key)
        key = f"CASE WHEN NOT ({nothing}) THEN {key} END"
    elif form == "JSON" and len(keys) == 1:
        key = _encode_alone(keys[0])
    else:
        key = _encode(keys, source.key_format, source.key_delimiter)
        if len(keys) == 1 or not is_new:
            key = f"CASE WHEN NOT ({nothing}) THEN {key} END"
    if source.window == "SESSION":
        return f"concat({key}, {_long_bytes(window_end)}, {_long_bytes(window_start)})"
    if source.window is not None:
        return f"concat({key}, {_long_bytes(window_start)})"
    return key


def window_bounds(source: Source, raw: str) -> tuple[str, str, str]:
    """Return SQL for the key without its window, and for the window's start and end in milliseconds."""
    tail = 16 if source.window == "SESSION" else 8
    key = f"substring({raw}, 1, octet_length({raw}) - {tail})"
    start = _long(f"substring({raw}, octet_length({raw}) - 7, 8)")
    if source.window == "SESSION":
        return key, start, _long(f"substring({raw}, octet_length({raw}) - 15, 8)")
    return key, start, f"({start} + {source.window_size_ms})"


def _encode(columns: Sequence[ColumnDefinition], form: str, delimiter: str) -> str:
    if form == "NONE" or (not columns and form != "JSON"):
        return "CAST(NULL AS BINARY)"
    if form == "KAFKA":
        return _kafka_encoded(columns[0])
    if form == "DELIMITED":
        written = [
            _delimited_field(_delimited_encoded(each), delimiter, is_first=each is columns[0])
            for each in columns
        ]
        return f"CAST(concat_ws({text(delimiter)}, {', '.join(written)}) AS BINARY)"
    if not columns:
        return "CAST('{}' AS BINARY)"
    return f"CAST({_to_json([(each.name, each) for each in columns])} AS BINARY)"


def _delimited_field(value: str, delimiter: str, *, is_first: bool) -> str:
    """Quote a field like Commons CSV in ksqlDB, which quotes more than necessary, especially the first field."""
    odd = [
        "^[^0-9A-Za-z]" if is_first else r"^[\x00-#]",
        f'[{re.escape(delimiter)}"\r\n]',
        r"[\x00- ]$",
    ]
    empty = "'\"\"'" if is_first else "''"
    must = " OR ".join(f"t RLIKE {text(each)}" for each in odd)
    quotes = "concat('\"', replace(t, '\"', '\"\"'), '\"')"
    return (
        f"transform(array(CAST({value} AS STRING)), t -> CASE WHEN t IS NULL THEN '' WHEN t = '' THEN {empty} "
        f"WHEN {must} THEN {quotes} ELSE t END)[0]"
    )


def _to_json(columns: Sequence[tuple[str, ColumnDefinition]]) -> str:
    parts = ", ".join(
        f"{text(name)}, {encoded(quoted(column.name), column.type)}" for name, column in columns
    )
    return f"to_json(named_struct({parts}), map('ignoreNullFields', 'false'))"


# KAFKA format: the encoding of Kafka's client serializers


def _long(raw: str) -> str:
    return f"CAST(conv(hex({raw}), 16, -10) AS BIGINT)"


def _long_bytes(value: str) -> str:
    return f"unhex(lpad(hex({value}), 16, '0'))"


def _kafka_decoded(raw: str, column: ColumnDefinition) -> str:
    if column.type.name == "BYTES":
        return raw
    if column.type.name == "BIGINT":
        return f"CASE WHEN octet_length({raw}) = 8 THEN {_long(raw)} END"
    if column.type.name == "DOUBLE":
        # Spark has no such function. Java prints a double so that parsing restores the same value.
        double = f"java_method('java.lang.Double', 'longBitsToDouble', {_long(raw)})"
        return f"CASE WHEN octet_length({raw}) = 8 THEN CAST({double} AS DOUBLE) END"
    if column.type.name == "INTEGER":
        unsigned = f"CAST(conv(hex({raw}), 16, 10) AS BIGINT)"
        return (
            f"CAST(CASE WHEN octet_length({raw}) = 4 THEN "
            f"CASE WHEN {unsigned} > 2147483647 THEN {unsigned} - 4294967296 ELSE {unsigned} END END AS INT)"
        )
    return f"CAST({raw} AS STRING)"


def _kafka_encoded(column: ColumnDefinition) -> str:
    name = quoted(column.name)
    if column.type.name == "BIGINT":
        return _long_bytes(name)
    if column.type.name == "DOUBLE":
        bits = f"CAST(java_method('java.lang.Double', 'doubleToLongBits', {name}) AS BIGINT)"
        return f"CASE WHEN {name} IS NOT NULL THEN {_long_bytes(bits)} END"
    if column.type.name == "INTEGER":
        return f"unhex(right(lpad(hex({name}), 16, '0'), 8))"
    return f"CAST({name} AS BINARY)"
