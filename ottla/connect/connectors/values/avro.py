"""Converts Connect schemas to Avro like Confluent's AvroData, and values to fastavro's types."""

from __future__ import annotations

import re
from typing import Any

from ottla.connect.connectors.values.plain import natural
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.errors import DataError

_PRIMITIVES = {
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
_LOGICAL = {
    "org.apache.kafka.connect.data.Date": {"type": "int", "logicalType": "date"},
    "org.apache.kafka.connect.data.Time": {"type": "int", "logicalType": "time-millis"},
    "org.apache.kafka.connect.data.Timestamp": {"type": "long", "logicalType": "timestamp-millis"},
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


def avro_schema(schema: Schema) -> Any:
    return _Naming().schema(schema)


class _Naming:
    """Defines each record type once per Avro schema. Later uses refer to it by name."""

    def __init__(self) -> None:
        self._known: dict[str, Schema] = {}

    def schema(self, schema: Schema) -> Any:
        found = self._required(schema)
        return ["null", found] if schema.optional else found

    def _required(self, schema: Schema) -> Any:
        if schema.name in _LOGICAL:
            return {**_LOGICAL[schema.name], "connect.version": 1, "connect.name": schema.name}
        if schema.name == "org.apache.kafka.connect.data.Decimal":
            parameters = schema.parameters or {}
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": int(parameters.get("connect.decimal.precision", 64)),
                "scale": int(parameters.get("scale", "0")),
            }
        if schema.type is SchemaType.STRUCT:
            return self._record(schema)
        if schema.type is SchemaType.ARRAY and schema.value_schema:
            return {"type": "array", "items": self.schema(schema.value_schema)}
        if schema.type is SchemaType.MAP and schema.value_schema and schema.key_schema:
            if schema.key_schema.type is not SchemaType.STRING:
                raise DataError("A map whose keys are not text cannot be written as Avro.")
            return {"type": "map", "values": self.schema(schema.value_schema)}
        return _PRIMITIVES[schema.type]

    def _record(self, schema: Schema) -> Any:
        name = schema.name or f"ConnectDefault{len(self._known) or ''}"
        if not _NAME.fullmatch(name):
            raise DataError(f"{name!r} cannot be the name of a record in Avro.")
        required = schema.as_optional(False)
        if name in self._known:
            if self._known[name] == required:
                return name
            name = f"{name}{len(self._known)}"
        self._known[name] = required
        fields = []
        for field in schema.fields:
            if not _NAME.fullmatch(field.name):
                raise DataError(f"{field.name!r} cannot be the name of a field in Avro.")
            about: dict[str, Any] = {"name": field.name, "type": self.schema(field.schema)}
            if field.schema.optional:
                about["default"] = None
            fields.append(about)
        return {"type": "record", "name": name, "fields": fields}


def avro_value(value: Any) -> Any:
    return natural(value)
