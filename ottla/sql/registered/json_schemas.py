"""JSON Schemas of JSON_SR: conversion to types and from columns, with Connect's type annotations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ottla.client.schema_registry import Schema
from ottla.spark.formats.json_schema.types import SchemaTypes, loaded
from ottla.sql.sql_types import Field, SqlType, from_spark

_LOGICAL = "org.apache.kafka.connect.data."
_TIMES = {"Timestamp": "TIMESTAMP", "Date": "DATE", "Time": "TIME"}


def type_of_schema(schema: Schema, referenced: dict[str, Schema]) -> SqlType | None:
    documents = {name: loaded(each.text) for name, each in referenced.items()}
    document = loaded(schema.text)
    return from_spark(_ConnectTypes(document, documents).type(document, (), 0))


class _ConnectTypes(SchemaTypes):
    """Recognises Connect's logical types by their titles."""

    def _plain(self, node: dict[str, Any], above: tuple[str, ...], depth: int) -> Any:
        from pyspark.sql import types

        title = str(node.get("title", ""))
        if not title.startswith(_LOGICAL):
            return super()._plain(node, above, depth)
        name = title.removeprefix(_LOGICAL)
        if name == "Decimal":
            said = node.get("connect.parameters") or {}
            scale, precision = said.get("scale", "0"), said.get("connect.decimal.precision", "38")
            if str(scale).isdigit() and str(precision).isdigit() and 0 < int(precision) <= 38:
                return types.DecimalType(int(precision), int(scale))
        simple = {"Timestamp": types.TimestampType(), "Date": types.DateType(), "Time": types.TimeType(6)}
        return simple.get(name) or super()._plain(node, above, depth)


def schema_of(fields: Sequence[Field], bare: bool) -> str:
    if bare:
        return json.dumps(_described(fields[0].type))
    return json.dumps({"type": "object", "properties": _properties(fields)})


def _properties(fields: Sequence[Field]) -> dict[str, Any]:
    return {
        field.name: {"connect.index": index, **_nullable(_described(field.type))}
        for index, field in enumerate(fields)
    }


def _nullable(described: dict[str, Any]) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, described]}


def _described(kind: SqlType) -> dict[str, Any]:
    if kind.name == "STRUCT":
        return {"type": "object", "properties": _properties(kind.fields)}
    if kind.name == "ARRAY":
        assert kind.element is not None
        return {"type": "array", "items": _nullable(_described(kind.element))}
    if kind.name == "MAP":
        assert kind.element is not None
        values = _nullable(_described(kind.element))
        return {"type": "object", "connect.type": "map", "additionalProperties": values}
    if kind.name == "DECIMAL":
        return {
            "type": "number",
            "title": f"{_LOGICAL}Decimal",
            "connect.version": 1,
            "connect.type": "bytes",
            "connect.parameters": {
                "scale": str(kind.scale),
                "connect.decimal.precision": str(kind.precision),
            },
        }
    for name, sql in _TIMES.items():
        if kind.name == sql:
            width = "int64" if name == "Timestamp" else "int32"
            return {
                "type": "integer",
                "title": f"{_LOGICAL}{name}",
                "connect.version": 1,
                "connect.type": width,
            }
    return dict(_SIMPLE[kind.name])


_SIMPLE = {
    "BOOLEAN": {"type": "boolean"},
    "INTEGER": {"type": "integer", "connect.type": "int32"},
    "BIGINT": {"type": "integer", "connect.type": "int64"},
    "DOUBLE": {"type": "number", "connect.type": "float64"},
    "STRING": {"type": "string"},
    "BYTES": {"type": "string", "connect.type": "bytes"},
}
