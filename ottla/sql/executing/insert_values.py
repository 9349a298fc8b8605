"""INSERT INTO … VALUES: encodes literals as a record, without Spark."""

from __future__ import annotations

import base64
import csv
import io
import json
import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import exp

from ottla.client.errors import ClientError
from ottla.sql.errors import Position, SqlError
from ottla.sql.parsing.dialect import identifier_name
from ottla.sql.parsing.statements import ColumnDefinition, InsertValues
from ottla.sql.planning.scope import Scope
from ottla.sql.registered.codecs import NONE, Codecs, PartCodec
from ottla.sql.registered.plain_values import encoded_record
from ottla.sql.sources import Source
from ottla.sql.sql_types import SqlType

Record = tuple[bytes | None, bytes | None, int | None]


def records(statement: InsertValues, source: Source, codecs: Codecs = NONE) -> list[Record]:
    return [_record(statement, source, codecs, row) for row in statement.rows]


def _record(statement: InsertValues, source: Source, codecs: Codecs, row: Sequence[exp.Expr]) -> Record:
    position = statement.position
    # Without names, the key comes first, as in ksqlDB.
    named = statement.columns or tuple(column.name for column in (*source.keys, *source.values))
    if not statement.columns and source.headers and len(row) == len(source.columns):
        named = (*named, *(column.name for column in source.headers))
    if len(named) != len(row):
        raise SqlError(f"There are {len(named)} columns and {len(row)} values.", position)
    values = {name: literal(tree, position) for name, tree in zip(named, row, strict=True)}
    return record_of(source, values, position, codecs)


def record_of(source: Source, values: Mapping[str, Any], position: Position, codecs: Codecs = NONE) -> Record:
    """Encode a row as a record. Columns without a value are null."""
    if source.is_read_only:
        raise SqlError(f"{source.name} is read only, because CREATE SOURCE made it.", position)
    if source.window is not None:
        raise SqlError(f"{source.name} is windowed: rows cannot be inserted.", position)
    columns = {column.name: column for column in source.columns}
    given: dict[str, Any] = {}
    timestamp: int | None = None
    for name, value in values.items():
        if name == "ROWTIME":
            timestamp = _converted(value, SqlType("BIGINT"), name, position)
        elif name in columns and columns[name].is_headers:
            raise SqlError(f"Cannot insert into HEADER columns: {name}.", position)
        elif name not in columns:
            raise SqlError(f"There is no column {name} in {source.name} to insert into.", position)
        else:
            given[name] = _converted(value, columns[name].type, name, position)
    if source.kind == "TABLE" and any(given.get(key.name) is None for key in source.keys):
        raise SqlError(f"A row of table {source.name} needs its PRIMARY KEY.", position)
    return _key_bytes(source, given, codecs), _value_bytes(source, given, codecs), timestamp


def _key_bytes(source: Source, given: dict[str, Any], codecs: Codecs) -> bytes | None:
    if codecs.key is None:
        return _key(source, given)
    if all(given.get(key.name) is None for key in source.keys):
        return None
    return _registered(codecs.key, source, given)


def _value_bytes(source: Source, given: dict[str, Any], codecs: Codecs) -> bytes | None:
    if codecs.value is not None:
        return _registered(codecs.value, source, given)
    if source.is_unwrapped:
        alone = given.get(source.values[0].name)
        return None if alone is None else _json(alone)
    return _encoded(source.values, source.value_format, source.value_delimiter, given)


def _registered(codec: PartCodec, source: Source, given: dict[str, Any]) -> bytes | None:
    alone = given.get(codec.fields[0].name) if codec.bare else None
    if codec.bare and alone is None:
        return None
    if not codec.is_binary:
        plain = (
            alone if codec.bare else {codec.name_in_json(each): given.get(each.name) for each in codec.fields}
        )
        return codec.frame + _json(plain)
    try:
        return encoded_record(codec, given)
    except ClientError as error:
        shown = " | ".join(
            "null" if given.get(each.name) is None else str(given[each.name]) for each in codec.fields
        )
        raise SqlError(
            f"Failed to insert values into '{source.name}'. Could not serialize {codec.part}: [ {shown} ]. "
            f"{error.message}"
        ) from None


def literal(tree: exp.Expr, position: Position) -> Any:
    where = Scope({}, position).place(tree)
    if isinstance(tree, exp.Null):
        return None
    if isinstance(tree, exp.Boolean):
        return bool(tree.this)
    if isinstance(tree, exp.Literal):
        if tree.is_string:
            return tree.name
        return int(tree.name) if tree.name.isdigit() else Decimal(tree.name)
    if isinstance(tree, exp.Neg):
        number = literal(tree.this, position)
        if isinstance(number, int | Decimal):
            return -number
    if isinstance(tree, exp.Paren):
        return literal(tree.this, position)
    if isinstance(tree, exp.Array):
        return [literal(each, position) for each in tree.expressions]
    if isinstance(tree, exp.Anonymous) and str(tree.this).upper() in ("MAP", "STRUCT"):
        found = {}
        for each in tree.expressions:
            if not isinstance(each, exp.PropertyEQ):
                raise SqlError("MAP and STRUCT are written with := between name and value.", where)
            if isinstance(each.this, exp.Literal):
                name = each.this.name
            else:
                name = identifier_name(each.this.this if isinstance(each.this, exp.Column) else each.this)
            found[name] = literal(each.expression, position)
        return found
    raise SqlError("VALUES takes constants: numbers, texts, TRUE, FALSE, NULL, ARRAY, MAP, STRUCT.", where)


def _converted(value: Any, kind: SqlType, name: str, position: Position) -> Any:
    """Convert the value to the type. Raises SqlError."""
    if value is None:
        return None
    wrong = SqlError(f"{name} is {kind}, and {value!r} is not.", position)
    try:
        if kind.name == "BOOLEAN" and isinstance(value, bool):
            return value
        if kind.name == "STRING" and isinstance(value, str):
            return value
        if kind.name == "BYTES" and isinstance(value, str):
            return base64.b64decode(value, validate=True)
        if isinstance(value, bool):
            raise wrong
        if kind.name in ("INTEGER", "BIGINT") and isinstance(value, int):
            bits = 31 if kind.name == "INTEGER" else 63
            if -(1 << bits) <= value < 1 << bits:
                return value
        if kind.name == "DOUBLE" and isinstance(value, int | Decimal):
            return float(value)
        if kind.name == "DECIMAL" and isinstance(value, int | Decimal | str):
            return round(Decimal(value), kind.scale)
        if kind.name == "TIMESTAMP":
            return _timestamp_ms(value)
        if kind.name == "DATE" and isinstance(value, str):
            return (date.fromisoformat(value) - date(1970, 1, 1)).days
        if kind.name == "TIME" and isinstance(value, str):
            return _time_ms(time.fromisoformat(value))
        if kind.name == "ARRAY" and isinstance(value, list) and kind.element is not None:
            return [_converted(each, kind.element, name, position) for each in value]
        if kind.name == "MAP" and isinstance(value, dict) and kind.element is not None:
            return {key: _converted(each, kind.element, name, position) for key, each in value.items()}
        if kind.name == "STRUCT" and isinstance(value, dict):
            types = {field.name: field for field in kind.fields}
            unknown = [key for key in value if key not in types]
            if unknown:
                raise SqlError(f"{name} has no field {unknown[0]}.", position)
            return {
                types[key].name: _converted(each, types[key].type, f"{name}->{key}", position)
                for key, each in value.items()
            }
    except (ValueError, InvalidOperation):
        raise wrong from None
    raise wrong


def _timestamp_ms(value: Any) -> int:
    if isinstance(value, int):
        return value
    moment = datetime.fromisoformat(str(value))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _time_ms(moment: time) -> int:
    seconds = (moment.hour * 60 + moment.minute) * 60 + moment.second
    return seconds * 1000 + moment.microsecond // 1000


# Bytes


def _key(source: Source, given: dict[str, Any]) -> bytes | None:
    keys = source.keys
    if not keys or all(given.get(key.name) is None for key in keys):
        return None
    if source.key_format == "JSON" and len(keys) == 1:
        return _json(given.get(keys[0].name))
    return _encoded(keys, source.key_format, source.key_delimiter, given)


def _encoded(
    columns: Sequence[ColumnDefinition], form: str, delimiter: str, given: dict[str, Any]
) -> bytes | None:
    if form == "NONE":
        return None
    if form == "JSON":
        return _json({column.name: given.get(column.name) for column in columns})
    if form == "KAFKA":
        return _kafka(given.get(columns[0].name), columns[0].type) if columns else None
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="").writerow(
        ["" if given.get(column.name) is None else _plain(given[column.name]) for column in columns]
    )
    return line.getvalue().encode()


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kafka(value: Any, kind: SqlType) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if kind.name == "DOUBLE":
        return struct.pack(">d", value)
    if kind.name in ("INTEGER", "BIGINT"):
        return int(value).to_bytes(4 if kind.name == "INTEGER" else 8, "big", signed=True)
    return str(value).encode()


def _json(value: Any) -> bytes:
    def plain(each: Any) -> Any:
        if isinstance(each, bytes):
            return base64.b64encode(each).decode()
        if isinstance(each, Decimal):
            return int(each) if each == each.to_integral_value() else float(each)
        raise TypeError(type(each))

    return json.dumps(value, default=plain, ensure_ascii=False, separators=(",", ":")).encode()
