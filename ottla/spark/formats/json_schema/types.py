"""Conversion between JSON Schemas and Spark types."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import types as spark_types

from ottla.client.schema_registry import Schema
from ottla.spark.options import OptionError

_TEXT = spark_types.StringType()
_DEEPEST = 50
#: Connect's annotations for numbers.
_CONNECT = {
    "int8": spark_types.ByteType(),
    "int16": spark_types.ShortType(),
    "int32": spark_types.IntegerType(),
    "int64": spark_types.LongType(),
    "float32": spark_types.FloatType(),
    "float64": spark_types.DoubleType(),
    "bytes": spark_types.BinaryType(),
}
_FORMATS = {"date": spark_types.DateType(), "date-time": spark_types.TimestampType()}
_SIMPLE = {
    "string": _TEXT,
    "integer": spark_types.LongType(),
    "number": spark_types.DoubleType(),
    "boolean": spark_types.BooleanType(),
}


def type_of(schema: Schema, referenced: dict[str, Schema]) -> Any:
    """Return the Spark type of a schema. Ambiguous and recursive parts become JSON text."""
    documents = {name: loaded(each.text) for name, each in referenced.items()}
    return SchemaTypes(loaded(schema.text), documents).type(loaded(schema.text), (), 0)


def loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise OptionError("The JSON Schema cannot be used: it is not JSON.") from None


class SchemaTypes:
    def __init__(self, document: Any, documents: dict[str, Any]) -> None:
        self._document = document
        self._documents = documents

    def type(self, node: Any, above: tuple[str, ...], depth: int) -> Any:
        if not isinstance(node, dict) or depth > _DEEPEST:
            return _TEXT
        if "$ref" in node:
            reference = str(node["$ref"])
            found = self._resolve(reference)
            if reference in above or found is None:
                return _TEXT
            return self.type(found, (*above, reference), depth + 1)
        for name in ("oneOf", "anyOf"):
            if isinstance(node.get(name), list) and "properties" not in node:
                return self._one_of(node[name], above, depth)
        if isinstance(node.get("allOf"), list):
            node = self._merged(node, above)
        return self._plain(node, above, depth)

    def _plain(self, node: dict[str, Any], above: tuple[str, ...], depth: int) -> Any:
        kinds = node.get("type")
        kinds = [each for each in (kinds if isinstance(kinds, list) else [kinds]) if each != "null"]
        if kinds == [None] and "properties" in node:
            kinds = ["object"]
        if kinds == [None] and isinstance(node.get("enum"), list):
            kinds = ["string"] if all(isinstance(each, str) for each in node["enum"]) else []
        if set(kinds) == {"integer", "number"}:
            kinds = ["number"]
        if len(kinds) != 1:
            return _TEXT
        [kind] = kinds
        if kind == "object":
            return self._object(node, above, depth)
        if kind == "array":
            return spark_types.ArrayType(self.type(node.get("items"), above, depth + 1))
        connect = _CONNECT.get(str(node.get("connect.type")))
        if connect is not None and kind in ("integer", "number", "string"):
            return connect
        if kind == "string":
            return _FORMATS.get(str(node.get("format")), _TEXT)
        return _SIMPLE.get(str(kind), _TEXT)

    def _object(self, node: dict[str, Any], above: tuple[str, ...], depth: int) -> Any:
        properties = node.get("properties")
        if isinstance(properties, dict) and properties:
            fields = spark_types.StructType()
            for name, each in properties.items():
                fields = fields.add(name, self.type(each, above, depth + 1))
            return fields
        others = node.get("additionalProperties")
        if isinstance(others, dict) and others:
            return spark_types.MapType(_TEXT, self.type(others, above, depth + 1))
        return _TEXT

    def _one_of(self, branches: list[Any], above: tuple[str, ...], depth: int) -> Any:
        some = [each for each in branches if not (isinstance(each, dict) and each.get("type") == "null")]
        return self.type(some[0], above, depth + 1) if len(some) == 1 else _TEXT

    def _merged(self, node: dict[str, Any], above: tuple[str, ...]) -> dict[str, Any]:
        merged = {name: each for name, each in node.items() if name != "allOf"}
        properties = dict(merged.get("properties") or {})
        for each in node["allOf"]:
            part = each
            if isinstance(part, dict) and "$ref" in part and part["$ref"] not in above:
                part = self._resolve(str(part["$ref"]))
            if isinstance(part, dict):
                properties |= part.get("properties") or {}
                merged = part | merged
        return merged | ({"properties": properties} if properties else {})

    def _resolve(self, reference: str) -> Any:
        name, _, pointer = reference.partition("#")
        found = self._documents.get(name) if name else self._document
        for part in pointer.split("/")[1:]:
            part = unquote(part).replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or part not in found:
                return None
            found = found[part]
        return found


def schema_of(kind: pa.DataType) -> str:
    """Return the default JSON Schema of a column."""
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **_described(kind)})


def _described(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_struct(kind):
        fields = {each.name: {"oneOf": [{"type": "null"}, _described(each.type)]} for each in kind}
        return {"type": "object", "properties": fields}
    if pa.types.is_map(kind):
        return {
            "type": "object",
            "additionalProperties": {"oneOf": [{"type": "null"}, _described(kind.item_type)]},
        }
    if pa.types.is_list(kind):
        return {"type": "array", "items": {"oneOf": [{"type": "null"}, _described(kind.value_type)]}}
    if pa.types.is_boolean(kind):
        return {"type": "boolean"}
    if pa.types.is_integer(kind):
        return {"type": "integer", "connect.type": str(kind)}
    if pa.types.is_floating(kind):
        return {"type": "number", "connect.type": f"float{kind.bit_width}"}
    if pa.types.is_decimal(kind):
        return {"type": "number"}
    if pa.types.is_binary(kind):
        return {"type": "string", "connect.type": "bytes"}
    if pa.types.is_date(kind):
        return {"type": "string", "format": "date"}
    if pa.types.is_timestamp(kind):
        return {"type": "string", "format": "date-time"}
    return {"type": "string"}
