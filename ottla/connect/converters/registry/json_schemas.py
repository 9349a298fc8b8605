"""Converts Connect schemas to JSON Schema and back, like Confluent's JsonSchemaData."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ottla.connect.converters.json_format.reading import Readers
from ottla.connect.data import logical
from ottla.connect.data.schema import Field, Schema, SchemaType
from ottla.connect.errors import DataError

ENUM = "io.confluent.connect.json.Enum"
ONE_OF = "io.confluent.connect.json.OneOf"
_NAMESPACE = "io.confluent.connect.json"
_INTEGERS = (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64)
_FLOATS = (SchemaType.FLOAT32, SchemaType.FLOAT64)


# To JSON Schema


def to_json_schema(
    schema: Schema, default_json: Any, *, numeric_decimals: bool, index: int | None = None
) -> Any:
    """`default_json` converts a default of a schema to JSON."""

    def written(of: Schema, at: int | None = None) -> Any:
        return to_json_schema(of, default_json, numeric_decimals=numeric_decimals, index=at)

    if schema.name == ONE_OF:
        branches = [written(each.schema.as_optional(False), each.index) for each in schema.fields]
        document: dict[str, Any] = {"oneOf": [{"type": "null"}, *branches] if schema.optional else branches}
    else:
        document = _plain(schema, written, numeric_decimals)
        _annotate(document, schema, default_json)
        if schema.optional:
            document = {"oneOf": [{"type": "null"}, document]}
    if index is not None:
        document["connect.index"] = index
    return document


def _plain(schema: Schema, written: Any, numeric_decimals: bool) -> dict[str, Any]:
    kind = schema.type
    if kind in _INTEGERS:
        return {"type": "integer", "connect.type": kind.value}
    if kind in _FLOATS:
        return {"type": "number", "connect.type": kind.value}
    if kind is SchemaType.BOOLEAN:
        return {"type": "boolean"}
    if kind is SchemaType.BYTES:
        is_number = schema.name == logical.DECIMAL and numeric_decimals
        return {"type": "number" if is_number else "string", "connect.type": "bytes"}
    if kind is SchemaType.STRING:
        parameters = schema.parameters or {}
        if ENUM in parameters:
            return {"enum": [value for key, value in parameters.items() if key.startswith(f"{ENUM}.")]}
        return {"type": "string"}
    if kind is SchemaType.ARRAY:
        return {"type": "array", "items": written(schema.value_schema)}
    if kind is SchemaType.STRUCT:
        return {
            "type": "object",
            "properties": {each.name: written(each.schema, each.index) for each in schema.fields},
        }
    assert schema.key_schema is not None
    if schema.key_schema.type is SchemaType.STRING and not schema.key_schema.optional:
        return {"type": "object", "connect.type": "map", "additionalProperties": written(schema.value_schema)}
    entry = {"key": written(schema.key_schema, 0), "value": written(schema.value_schema, 1)}
    return {"type": "array", "connect.type": "map", "items": {"type": "object", "properties": entry}}


def _annotate(document: dict[str, Any], schema: Schema, default_json: Any) -> None:
    if schema.name is not None:
        document["title"] = schema.name
    if schema.doc is not None:
        document["description"] = schema.doc
    if schema.version is not None:
        document["connect.version"] = schema.version
    own = {key: each for key, each in (schema.parameters or {}).items() if not key.startswith(_NAMESPACE)}
    if own:
        document["connect.parameters"] = own
    if schema.default is not None:
        document["default"] = default_json(schema, schema.default)


# From JSON Schema


class JsonSchemaReader:
    def __init__(self, document: Any, *, optional_if_not_required: bool, version: int | None) -> None:
        self._document = document
        self._optional_if_not_required = optional_if_not_required
        self._version = version
        self._open: list[str] = []

    def read(self) -> Schema:
        schema = self._read(self._document)
        return schema if self._version is None else replace(schema, version=self._version)

    def _read(self, node: Any) -> Schema:
        if node is True or node == {}:
            raise DataError("A JSON Schema that allows anything cannot be a schema of Connect.")
        if not isinstance(node, dict):
            raise DataError(f"This is no JSON Schema: {node}.")
        if "$ref" in node:
            return self._referenced(str(node["$ref"]))
        for word in ("oneOf", "anyOf"):
            if word in node:
                return self._one_of(node[word])
        if "allOf" in node:
            return self._all_of(node)
        if isinstance(node.get("type"), list):
            return self._one_of([{**node, "type": each} for each in node["type"]])
        schema = self._plain(node)
        return self._annotated(schema, node)

    def _plain(self, node: dict[str, Any]) -> Schema:
        if "enum" in node or "const" in node:
            symbols = node.get("enum", [node.get("const")])
            parameters = {ENUM: ""} | {f"{ENUM}.{each}": str(each) for each in symbols if each is not None}
            return Schema(SchemaType.STRING, None in symbols, parameters=parameters)
        kind, small = node.get("type"), node.get("connect.type")
        if kind is None and "properties" in node:
            kind = "object"
        if small == "bytes":
            return Schema(SchemaType.BYTES)
        if kind in ("integer", "number"):
            default = SchemaType.INT64 if kind == "integer" else SchemaType.FLOAT64
            return Schema(SchemaType(small) if small is not None else default)
        if kind == "string":
            return Schema(SchemaType.STRING)
        if kind == "boolean":
            return Schema(SchemaType.BOOLEAN)
        if kind == "array":
            return self._array(node)
        if kind == "object":
            return self._object(node)
        raise DataError(f"Unsupported schema type {kind}")

    def _array(self, node: dict[str, Any]) -> Schema:
        items = node.get("items")
        if isinstance(items, list) or items is None:
            raise DataError("Array schema did not specify the items type")
        if node.get("connect.type") == "map":
            entry = items["properties"]
            key, value = self._read(entry["key"]), self._read(entry["value"])
            return Schema(SchemaType.MAP, key_schema=key, value_schema=value)
        return Schema(SchemaType.ARRAY, value_schema=self._read(items))

    def _object(self, node: dict[str, Any]) -> Schema:
        additional = node.get("additionalProperties")
        if node.get("connect.type") == "map" or ("properties" not in node and isinstance(additional, dict)):
            values = self._read(additional)
            return Schema(SchemaType.MAP, key_schema=Schema(SchemaType.STRING), value_schema=values)
        properties = list((node.get("properties") or {}).items())
        properties.sort(
            key=lambda each: each[1].get("connect.index", 1 << 30) if isinstance(each[1], dict) else 0
        )
        required = set(node.get("required") or ())
        fields = []
        for index, (name, each) in enumerate(properties):
            schema = self._read(each)
            if self._optional_if_not_required and name not in required:
                schema = schema.as_optional()
            fields.append(Field(name, index, schema))
        return Schema(SchemaType.STRUCT, fields=tuple(fields))

    def _one_of(self, nodes: list[Any]) -> Schema:
        branches = [each for each in nodes if not (isinstance(each, dict) and each.get("type") == "null")]
        optional = len(branches) < len(nodes)
        if len(branches) == 1:
            schema = self._read(branches[0])
            return schema.as_optional(optional or schema.optional)
        fields = tuple(
            Field(f"{ONE_OF}.field.{index}", index, self._read(each).as_optional())
            for index, each in enumerate(branches)
        )
        return Schema(SchemaType.STRUCT, optional, name=ONE_OF, fields=fields)

    def _all_of(self, node: dict[str, Any]) -> Schema:
        """Merge the objects of `allOf` into one with all their properties."""
        merged: dict[str, Any] = {key: each for key, each in node.items() if key != "allOf"}
        for each in node["allOf"]:
            part = self._resolved(str(each["$ref"])) if isinstance(each, dict) and "$ref" in each else each
            for key, value in part.items():
                if key in ("properties", "connect.parameters"):
                    merged[key] = {**merged.get(key, {}), **value}
                elif key == "required":
                    merged[key] = [*merged.get(key, []), *value]
                else:
                    merged.setdefault(key, value)
        return self._read(merged)

    def _referenced(self, reference: str) -> Schema:
        if reference in self._open:
            raise DataError(f"The JSON Schema refers to itself by {reference}, which is not supported.")
        self._open.append(reference)
        schema = self._read(self._resolved(reference))
        self._open.pop()
        return schema

    def _resolved(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise DataError(f"A reference to another JSON Schema is not supported: {reference}.")
        found = self._document
        for step in [each for each in reference[1:].split("/") if each]:
            step = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or step not in found:
                raise DataError(f"The JSON Schema refers to {reference}, which is not there.")
            found = found[step]
        return found

    def _annotated(self, schema: Schema, node: dict[str, Any]) -> Schema:
        about: dict[str, Any] = {}
        if node.get("title") is not None:
            about["name"] = node["title"]
        if node.get("description") is not None:
            about["doc"] = node["description"]
        if node.get("connect.version") is not None:
            about["version"] = int(node["connect.version"])
        if node.get("connect.parameters"):
            about["parameters"] = {**(schema.parameters or {}), **node["connect.parameters"]}
        schema = replace(schema, **about)
        if node.get("default") is not None:
            default = Readers(replace_null=False, cache_size=1).of(schema)(node["default"])
            schema = replace(schema, default=default)
        return schema
