"""Schemas as JSON: `{"type":"struct","fields":[…],"optional":false,"name":…}`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.connect.converters.json_format.writing import quoted
from ottla.connect.data.java_values import wrapped
from ottla.connect.data.schema import Field, Schema, SchemaType
from ottla.connect.errors import DataError

_NAMES = {each: each.value for each in SchemaType} | {
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
}
_TYPES = {name: each for each, name in _NAMES.items()}


def write_schema(
    schema: Schema, write_default: Callable[[Schema, Any], str], field: str | None = None
) -> str:
    parts = [f'"type":"{_NAMES[schema.type]}"']
    if schema.type is SchemaType.ARRAY:
        assert schema.value_schema is not None
        parts.append(f'"items":{write_schema(schema.value_schema, write_default)}')
    elif schema.type is SchemaType.MAP:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        parts.append(f'"keys":{write_schema(schema.key_schema, write_default)}')
        parts.append(f'"values":{write_schema(schema.value_schema, write_default)}')
    elif schema.type is SchemaType.STRUCT:
        fields = [write_schema(each.schema, write_default, each.name) for each in schema.fields]
        parts.append(f'"fields":[{",".join(fields)}]')
    parts.append(f'"optional":{"true" if schema.optional else "false"}')
    if schema.name is not None:
        parts.append(f'"name":{quoted(schema.name)}')
    if schema.version is not None:
        parts.append(f'"version":{schema.version}')
    if schema.doc is not None:
        parts.append(f'"doc":{quoted(schema.doc)}')
    if schema.parameters is not None:
        entries = [f"{quoted(key)}:{quoted(value)}" for key, value in schema.parameters.items()]
        parts.append(f'"parameters":{{{",".join(entries)}}}')
    if schema.default is not None:
        parts.append(f'"default":{write_default(schema, schema.default)}')
    if field is not None:
        parts.append(f'"field":{quoted(field)}')
    return "{" + ",".join(parts) + "}"


def read_schema(node: Any, read_default: Callable[[Schema, Any], Any]) -> Schema | None:
    if node is None:
        return None
    named = node.get("type") if isinstance(node, dict) else None
    if not isinstance(named, str):
        raise DataError("Schema must contain 'type' field")
    kind = _TYPES.get(named)
    if kind is None:
        raise DataError(f"Unknown schema type: {named}")
    about: dict[str, Any] = {}
    if kind is SchemaType.ARRAY:
        if node.get("items") is None:
            raise DataError("Array schema did not specify the element type")
        about["value_schema"] = read_schema(node["items"], read_default)
    elif kind is SchemaType.MAP:
        for part, of, what in (("keys", "key_schema", "key"), ("values", "value_schema", "value")):
            if node.get(part) is None:
                raise DataError(f"Map schema did not specify the {what} type")
            about[of] = read_schema(node[part], read_default)
    elif kind is SchemaType.STRUCT:
        about["fields"] = _fields(node.get("fields"), read_default)
    if node.get("optional") is True:
        about["optional"] = True
    if isinstance(node.get("name"), str):
        about["name"] = node["name"]
    if isinstance(node.get("version"), int) and not isinstance(node["version"], bool):
        about["version"] = wrapped(node["version"], 32)
    if isinstance(node.get("doc"), str):
        about["doc"] = node["doc"]
    if isinstance(node.get("parameters"), dict):
        if not all(isinstance(each, str) for each in node["parameters"].values()):
            raise DataError("Schema parameters must have string values.")
        if node["parameters"]:
            about["parameters"] = dict(node["parameters"])
    schema = Schema(kind, **about)
    if "default" in node:
        default = read_default(schema, node["default"])
        schema = Schema(kind, **about, default=default)
    return schema


def _fields(nodes: Any, read_default: Callable[[Schema, Any], Any]) -> tuple[Field, ...]:
    if not isinstance(nodes, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    fields: list[Field] = []
    names: set[str] = set()
    for node in nodes:
        name = node.get("field") if isinstance(node, dict) else None
        if not isinstance(name, str):
            raise DataError("Struct schema's field name not specified properly")
        schema = read_schema(node, read_default)
        assert schema is not None
        if name in names:
            raise DataError(f"Cannot create field because of field name duplication {name}")
        names.add(name)
        fields.append(Field(name, len(fields), schema))
    return tuple(fields)
