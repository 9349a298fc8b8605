"""Schemas registered for columns, with the names of ksqlDB and Connect."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ottla.client.schema_registry import AVRO, JSON, PROTOBUF, Schema
from ottla.sql.errors import SqlError
from ottla.sql.registered import json_schemas
from ottla.sql.registered.conversions import MOST_DIGITS
from ottla.sql.sql_types import Field, SqlType

NAMESPACE = "io.confluent.ksql.avro_schemas"
RECORD = "KsqlDataSourceSchema"
MESSAGE = "ConnectDefault1"
_CONNECT = "org.apache.kafka.connect.data."
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def schema_of(
    form: str,
    fields: Sequence[Field],
    *,
    bare: bool = False,
    full_name: str | None = None,
    nullable: str | None = None,
) -> Schema:
    """Build a schema. `bare` means one column is the whole value; `nullable` is Protobuf's OPTIONAL or WRAPPER."""
    if form == "JSON_SR":
        return Schema(json_schemas.schema_of(fields, bare), JSON)
    _check_names(form, fields)
    if form == "AVRO":
        space, _, name = (full_name or f"{NAMESPACE}.{RECORD}").rpartition(".")
        if bare:
            return Schema(json.dumps(_avro(fields[0].type, name, space)), AVRO)
        return Schema(json.dumps(_record(fields, name, space)), AVRO)
    return Schema(_File(nullable).text(fields, full_name), PROTOBUF)


def _check_names(form: str, fields: Sequence[Field]) -> None:
    for field in fields:
        if _IDENTIFIER.match(field.name) is None:
            raise SqlError(f"Schema is not compatible with {form}: Illegal character in: {field.name}.")
        inner = field.type
        while inner.element is not None:
            inner = inner.element
        _check_names(form, inner.fields)


# Avro

_AVRO = {
    "BOOLEAN": "boolean",
    "INTEGER": "int",
    "BIGINT": "long",
    "DOUBLE": "double",
    "STRING": "string",
    "BYTES": "bytes",
}
_AVRO_TIMES = {
    "TIMESTAMP": ("long", "timestamp-millis", "Timestamp"),
    "DATE": ("int", "date", "Date"),
    "TIME": ("int", "time-millis", "Time"),
}


def _record(fields: Sequence[Field], name: str, space: str, **more: str) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        **({"namespace": space} if space else {}),
        "fields": [
            {
                "name": field.name,
                "type": ["null", _avro(field.type, f"{name}_{field.name}", space)],
                "default": None,
            }
            for field in fields
        ],
        **({key.replace("_", "."): value for key, value in more.items()}),
        "connect.name": f"{space}.{name}".removeprefix("."),
    }


def _avro(kind: SqlType, name: str, space: str) -> Any:
    """Build an Avro type. Nested records are named after their path."""
    if kind.name == "STRUCT":
        return _record(kind.fields, name, space)
    if kind.name == "ARRAY":
        assert kind.element is not None
        return {"type": "array", "items": ["null", _avro(kind.element, name, space)]}
    if kind.name == "MAP":
        assert kind.element is not None
        # Connect encodes maps with nullable keys as an array of entries.
        entry = [Field("key", "key", SqlType("STRING")), Field("value", "value", kind.element)]
        record = _record(entry, name, space, connect_internal_type="MapEntry")
        return {"type": "array", "items": record}
    if kind.name == "DECIMAL":
        return {
            "type": "bytes",
            "scale": kind.scale,
            "precision": kind.precision,
            "connect.version": 1,
            "connect.parameters": {
                "scale": str(kind.scale),
                "connect.decimal.precision": str(kind.precision),
            },
            "connect.name": f"{_CONNECT}Decimal",
            "logicalType": "decimal",
        }
    if kind.name in _AVRO_TIMES:
        primitive, logical, title = _AVRO_TIMES[kind.name]
        return {
            "type": primitive,
            "connect.version": 1,
            "connect.name": f"{_CONNECT}{title}",
            "logicalType": logical,
        }
    return _AVRO[kind.name]


# Protobuf

_SCALARS = {
    "BOOLEAN": "bool",
    "INTEGER": "int32",
    "BIGINT": "int64",
    "DOUBLE": "double",
    "STRING": "string",
    "BYTES": "bytes",
}
_MESSAGES = {
    "TIMESTAMP": ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
    "DATE": ("google.type.Date", "google/type/date.proto"),
    "TIME": ("google.type.TimeOfDay", "google/type/timeofday.proto"),
    "DECIMAL": ("confluent.type.Decimal", "confluent/type/decimal.proto"),
}
_WRAPPERS = {
    "bool": "BoolValue",
    "int32": "Int32Value",
    "int64": "Int64Value",
    "double": "DoubleValue",
    "string": "StringValue",
    "bytes": "BytesValue",
}


class _File:
    """Builds a Protobuf file. Messages are nested where used, and fields are numbered in order."""

    def __init__(self, nullable: str | None) -> None:
        self._nullable = nullable
        self._imports: set[str] = set()
        self._count = 1

    def text(self, fields: Sequence[Field], full_name: str | None) -> str:
        package, _, name = (full_name or MESSAGE).rpartition(".")
        body = self._message(fields, name)
        head = ['syntax = "proto3";', *([f"package {package};"] if package else [])]
        imports = [f'import "{each}";' for each in sorted(self._imports)]
        return "\n".join([*head, "", *imports, *([""] if imports else []), *body]) + "\n"

    def _message(self, fields: Sequence[Field], name: str) -> list[str]:
        lines, nested = [f"message {name} {{"], []
        for number, field in enumerate(fields, 1):
            kind, inner, options = self._type(field.type)
            nested += inner
            lines.append(f"  {kind} {field.name} = {number}{options};")
        return [*lines, *(f"  {line}" for line in nested), "}"]

    def _type(self, kind: SqlType) -> tuple[str, list[str], str]:
        if kind.name == "ARRAY":
            assert kind.element is not None
            if kind.element.element is not None:
                raise SqlError(f"Protobuf has no {kind}: put the inner one into a STRUCT.")
            name, nested, options = self._one(kind.element)
            return f"repeated {name}", nested, options
        if kind.name == "MAP":
            assert kind.element is not None
            if kind.element.element is not None:
                raise SqlError(f"Protobuf has no {kind}: put the inner one into a STRUCT.")
            name, nested, options = self._one(kind.element)
            return f"map<string, {name}>", nested, options
        name, nested, options = self._one(kind)
        if name in _WRAPPERS and self._nullable == "OPTIONAL":
            name = f"optional {name}"
        if name in _WRAPPERS and self._nullable == "WRAPPER":
            self._imports.add("google/protobuf/wrappers.proto")
            name = f"google.protobuf.{_WRAPPERS[name]}"
        return name, nested, options

    def _one(self, kind: SqlType) -> tuple[str, list[str], str]:
        if kind.name == "STRUCT":
            self._count += 1
            name = f"{MESSAGE[:-1]}{self._count}"
            return name, self._message(kind.fields, name), ""
        if kind.name in _SCALARS:
            return _SCALARS[kind.name], [], ""
        name, file = _MESSAGES[kind.name]
        self._imports.add(file)
        if kind.name != "DECIMAL":
            return name, [], ""
        if kind.precision > MOST_DIGITS:
            raise SqlError(f"{kind} has more than the {MOST_DIGITS} digits that are written as Protobuf.")
        self._imports.add("confluent/meta.proto")
        params = ", ".join(
            f'{{key: "{key}", value: "{value}"}}'
            for key, value in (("precision", kind.precision), ("scale", kind.scale))
        )
        return name, [], f" [(confluent.field_meta) = {{params: [{params}]}}]"
