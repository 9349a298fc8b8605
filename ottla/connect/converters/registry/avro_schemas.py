"""Converts Connect schemas to Avro and back. The connect.* properties hold details that Avro lacks.

The mapping follows Confluent's AvroData without `enhanced.avro.schema.support`: enums become strings.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ottla.connect.data import logical
from ottla.connect.data.schema import Field, Schema, SchemaType
from ottla.connect.errors import DataError

DEFAULT_NAMESPACE = "io.confluent.connect.avro"
DEFAULT_NAME = "ConnectDefault"
MAP_ENTRY = "MapEntry"
UNION = "io.confluent.connect.avro.Union"
ENUM = "io.confluent.connect.avro.Enum"
PRECISION = "connect.decimal.precision"
_DEFAULT_PRECISION = 64
_VALID_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_TO_AVRO = {
    SchemaType.INT8: "int",
    SchemaType.INT16: "int",
    SchemaType.INT32: "int",
    SchemaType.INT64: "long",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "boolean",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}
_FROM_AVRO = {
    "int": SchemaType.INT32,
    "long": SchemaType.INT64,
    "float": SchemaType.FLOAT32,
    "double": SchemaType.FLOAT64,
    "boolean": SchemaType.BOOLEAN,
    "string": SchemaType.STRING,
    "bytes": SchemaType.BYTES,
    "fixed": SchemaType.BYTES,
    "enum": SchemaType.STRING,
}
_LOGICAL = {
    logical.DATE: "date",
    logical.TIME: "time-millis",
    logical.TIMESTAMP: "timestamp-millis",
    logical.DECIMAL: "decimal",
}


# To Avro


class AvroWriter:
    """Writes one schema. A repeated record is written by name only."""

    def __init__(self, default_json: Any) -> None:
        #: Converts a default of a schema to JSON.
        self._default_json = default_json
        self._named: dict[str, Schema] = {}

    def written(self, schema: Schema, *, in_union: bool = False) -> Any:
        base = self._base(schema)
        if schema.optional and not in_union:
            if schema.default is not None:
                return [base, "null"]
            return ["null", base]
        return base

    def _base(self, schema: Schema) -> Any:
        if schema.name == UNION:
            return [
                "null" if schema.optional else None,
                *(self.written(each.schema, in_union=True) for each in schema.fields),
            ][0 if schema.optional else 1 :]
        if schema.type is SchemaType.STRUCT:
            return self._record(schema)
        if schema.type is SchemaType.ARRAY:
            assert schema.value_schema is not None
            return self._annotated({"type": "array", "items": self.written(schema.value_schema)}, schema)
        if schema.type is SchemaType.MAP:
            return self._map(schema)
        avro: dict[str, Any] = {"type": _TO_AVRO[schema.type]}
        if schema.name == logical.DECIMAL:
            avro["scale"] = logical.scale_of(schema)
            avro["precision"] = int((schema.parameters or {}).get(PRECISION, _DEFAULT_PRECISION))
        avro = self._annotated(avro, schema)
        if schema.type in (SchemaType.INT8, SchemaType.INT16):
            avro["connect.type"] = schema.type.value
        if schema.name in _LOGICAL:
            avro["logicalType"] = _LOGICAL[schema.name]
        return avro["type"] if len(avro) == 1 else avro

    def _record(self, schema: Schema) -> Any:
        namespace, _, name = (schema.name or f"{DEFAULT_NAMESPACE}.{DEFAULT_NAME}").rpartition(".")
        full_name = f"{namespace}.{name}" if namespace else name
        known = self._named.get(full_name)
        if known is not None:
            if known.fields != schema.fields:
                raise DataError(
                    f"Two structs with different fields have the name {full_name}, which Avro forbids."
                )
            return full_name
        _check_name(full_name)
        self._named[full_name] = schema
        avro: dict[str, Any] = {"type": "record", "name": name}
        if namespace:
            avro["namespace"] = namespace
        avro["fields"] = [self._field(each) for each in schema.fields]
        return self._annotated(avro, schema)

    def _field(self, field: Field) -> dict[str, Any]:
        _check_name(field.name)
        avro: dict[str, Any] = {"name": field.name, "type": self.written(field.schema)}
        if field.schema.doc is not None:
            avro["doc"] = field.schema.doc
        if field.schema.default is not None:
            avro["default"] = self._default_json(field.schema, field.schema.default)
        elif field.schema.optional:
            avro["default"] = None
        return avro

    def _map(self, schema: Schema) -> Any:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        if schema.key_schema.type is SchemaType.STRING and not schema.key_schema.optional:
            return self._annotated({"type": "map", "values": self.written(schema.value_schema)}, schema)
        namespace, _, name = (schema.name or f"{DEFAULT_NAMESPACE}.{MAP_ENTRY}").rpartition(".")
        entry: dict[str, Any] = {"type": "record", "name": name}
        if namespace:
            entry["namespace"] = namespace
        entry["fields"] = [
            {"name": "key", "type": self.written(schema.key_schema)},
            {"name": "value", "type": self.written(schema.value_schema)},
        ]
        entry["connect.internal.type"] = MAP_ENTRY
        return self._annotated({"type": "array", "items": entry}, schema)

    def _annotated(self, avro: dict[str, Any], schema: Schema) -> dict[str, Any]:
        if schema.doc is not None:
            avro["connect.doc"] = schema.doc
        if schema.version is not None:
            avro["connect.version"] = schema.version
        if schema.parameters:
            avro["connect.parameters"] = dict(schema.parameters)
        if schema.default is not None:
            avro["connect.default"] = self._default_json(schema, schema.default)
        if schema.name is not None:
            avro["connect.name"] = schema.name
        return avro


def _check_name(name: str) -> None:
    for part in name.split("."):
        if not _VALID_NAME.fullmatch(part):
            raise DataError(
                f"Illegal character in: {name}. Avro's names have letters, digits and _ only;"
                " rename it with ReplaceField or SetSchemaMetadata."
            )


# From Avro


class AvroReader:
    """Reads one schema. `version` is the registry's version number."""

    def __init__(self, from_default: Any) -> None:
        #: Converts a JSON default, given the Connect schema and the Avro schema.
        self._from_default = from_default
        self.named: dict[str, Any] = {}
        self._open: set[str] = set()

    def read(self, avro: Any, *, namespace: str = "", version: int | None = None) -> Schema:
        return self._read(avro, namespace, version=version)

    def _read(
        self,
        avro: Any,
        namespace: str,
        *,
        version: int | None = None,
        doc: str | None = None,
        default: Any = None,
        has_default: bool = False,
    ) -> Schema:
        if isinstance(avro, list):
            return self._union(avro, namespace, doc=doc, default=default, has_default=has_default)
        avro, namespace = self.resolved(avro, namespace)
        schema = self._plain(avro, namespace)
        about: dict[str, Any] = {}
        said = doc or avro.get("doc") or avro.get("connect.doc")
        if said is not None:
            about["doc"] = said
        if version is None:
            version = avro.get("connect.version")
        if version is not None:
            about["version"] = version
        parameters = {**(schema.parameters or {}), **(avro.get("connect.parameters") or {})}
        if parameters:
            about["parameters"] = parameters
        name = avro.get("connect.name") or schema.name
        if avro["type"] in ("record", "enum", "fixed") and name is None:
            name = avro["full_name"]
        if name is not None and name != f"{DEFAULT_NAMESPACE}.{DEFAULT_NAME}":
            about["name"] = name
        schema = replace(schema, **about)
        if not has_default and "connect.default" in avro:
            default, has_default = avro["connect.default"], True
        if has_default and default is not None:
            schema = replace(schema, default=self._from_default(schema, avro, default))
        return schema

    def resolved(self, avro: Any, namespace: str) -> tuple[dict[str, Any], str]:
        """Return a type as an object, resolving names, and the namespace inside it."""
        if isinstance(avro, str):
            if avro in _FROM_AVRO or avro == "null":
                return {"type": avro}, namespace
            full_name = avro if "." in avro or not namespace else f"{namespace}.{avro}"
            found = self.named.get(full_name) or self.named.get(avro)
            if found is None:
                raise DataError(f"The Avro schema names a type that it does not define: {avro}.")
            return found, found["full_name"].rpartition(".")[0]
        if isinstance(avro.get("type"), dict | list) or avro.get("type") in self.named:
            return self.resolved(avro["type"], namespace)
        if avro.get("type") in ("record", "enum", "fixed", "error"):
            name = avro["name"]
            space = avro.get("namespace") if "." not in name else None
            if space is None and "." not in name:
                space = namespace
            full_name = f"{space}.{name}" if space else name
            avro = {**avro, "full_name": full_name}
            if avro["type"] == "error":
                avro["type"] = "record"
            self.named.setdefault(full_name, avro)
            return self.named[full_name], full_name.rpartition(".")[0]
        return avro, namespace

    def _plain(self, avro: dict[str, Any], namespace: str) -> Schema:
        kind = avro["type"]
        if kind == "record":
            return self._record(avro, namespace)
        if kind == "array":
            return self._array(avro, namespace)
        if kind == "map":
            values = self._read(avro["values"], namespace)
            return Schema(SchemaType.MAP, key_schema=Schema(SchemaType.STRING), value_schema=values)
        if kind not in _FROM_AVRO:
            raise DataError(f"Couldn't translate unsupported schema type {str(kind).upper()}.")
        logical_type = avro.get("logicalType")
        if kind in ("bytes", "fixed") and logical_type == "decimal":
            return _decimal(avro)
        if kind == "int" and logical_type == "date":
            return replace(logical.DATE_SCHEMA)
        if kind == "int" and logical_type == "time-millis":
            return replace(logical.TIME_SCHEMA)
        if kind == "long" and logical_type == "timestamp-millis":
            return replace(logical.TIMESTAMP_SCHEMA)
        if kind == "enum":
            symbols = {f"{ENUM}.{each}": each for each in avro["symbols"]}
            return Schema(SchemaType.STRING, parameters={ENUM: avro["full_name"], **symbols})
        if kind == "fixed":
            return Schema(SchemaType.BYTES, parameters={"connect.fixed.size": str(avro["size"])})
        small = avro.get("connect.type")
        if kind == "int" and small in ("int8", "int16"):
            return Schema(SchemaType(small))
        return Schema(_FROM_AVRO[kind])

    def _record(self, avro: dict[str, Any], namespace: str) -> Schema:
        if avro["full_name"] in self._open:
            raise DataError(f"The record {avro['full_name']} contains itself, which is not supported.")
        self._open.add(avro["full_name"])
        fields = []
        for index, each in enumerate(avro["fields"]):
            schema = self._read(
                each["type"],
                namespace,
                doc=each.get("doc"),
                default=each.get("default"),
                has_default="default" in each,
            )
            fields.append(Field(each["name"], index, schema))
        self._open.discard(avro["full_name"])
        return Schema(SchemaType.STRUCT, fields=tuple(fields))

    def _array(self, avro: dict[str, Any], namespace: str) -> Schema:
        items = avro["items"]
        if isinstance(items, dict) and items.get("connect.internal.type") == MAP_ENTRY:
            entry, inner = self.resolved(items, namespace)
            key, value = (self._read(each["type"], inner) for each in entry["fields"])
            return Schema(SchemaType.MAP, key_schema=key, value_schema=value)
        return Schema(SchemaType.ARRAY, value_schema=self._read(items, namespace))

    def _union(
        self, avro: list[Any], namespace: str, *, doc: str | None, default: Any, has_default: bool
    ) -> Schema:
        branches = [each for each in avro if each != "null"]
        optional = len(branches) < len(avro)
        if len(branches) == 1:
            schema = self._read(branches[0], namespace, doc=doc, default=default, has_default=has_default)
            return schema.as_optional(optional or schema.optional)
        fields = tuple(
            Field(self.branch_name(each, namespace), index, self._read(each, namespace).as_optional())
            for index, each in enumerate(branches)
        )
        return Schema(SchemaType.STRUCT, optional, name=UNION, doc=doc, fields=fields)

    def branch_name(self, avro: Any, namespace: str) -> str:
        """Return the field name of a union member. Records use their short name."""
        found, _ = self.resolved(avro, namespace)
        if "full_name" in found:
            return str(found["full_name"]).rpartition(".")[2]
        return str(found["type"])


def _decimal(avro: dict[str, Any]) -> Schema:
    parameters = {logical.SCALE: str(avro.get("scale", 0))}
    precision = avro.get("precision")
    if precision is not None and precision != _DEFAULT_PRECISION:
        parameters[PRECISION] = str(precision)
    return Schema(SchemaType.BYTES, name=logical.DECIMAL, version=1, parameters=parameters)
