"""JSON Schema with a registry: io.confluent.connect.json.JsonSchemaConverter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ottla.client.schema_registry import JSON
from ottla.connect.config.config_def import ConfigType, Importance
from ottla.connect.config.validators import one_of_any_case
from ottla.connect.converters.converter import SchemaAndValue
from ottla.connect.converters.json_format.reading import Reader, Readers, node_type, scan_decimals
from ottla.connect.converters.json_format.writing import Writer, Writers, to_bytes
from ottla.connect.converters.registry.base import RegistryConverter, registry_config, required_schema
from ottla.connect.converters.registry.json_schemas import ONE_OF, JsonSchemaReader, to_json_schema
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError


class JsonSchemaConverter(RegistryConverter):
    schema_type = JSON
    config_def = (
        registry_config()
        .define(
            "decimal.format",
            ConfigType.STRING,
            "BASE64",
            Importance.LOW,
            "Format of written decimals: BASE64 (bytes) or NUMERIC (a number). Both can be read.",
            validator=one_of_any_case("BASE64", "NUMERIC"),
        )
        .define(
            "use.optional.for.nonrequired",
            ConfigType.BOOLEAN,
            False,
            Importance.MEDIUM,
            "Whether properties that a schema does not require are optional fields.",
        )
    )

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        super().configure(config, is_key)
        self._numeric = self.settings["decimal.format"].upper() == "NUMERIC"
        size: int = self.settings["schemas.cache.config"]
        self._writers = _Writers(numeric_decimals=self._numeric, replace_null=True, cache_size=size)
        self._value_readers = _Readers(replace_null=True, cache_size=size)
        self._texts: dict[Schema, str] = {}
        self._schemas: dict[tuple[int, str], Schema] = {}

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None and (schema is None or schema.optional):
            return None
        schema = required_schema(schema, topic, "JSON Schema")
        text = self._texts.get(schema)
        if text is None:
            text = self._texts[schema] = json.dumps(
                to_json_schema(schema, self._default_json, numeric_decimals=self._numeric),
                separators=(",", ":"),
            )
        payload = to_bytes(self._writers.of(schema)(value))
        schema_id, _ = self.registered(topic, text, schema.name)
        return self.frame(schema_id, payload)

    def _default_json(self, schema: Schema, value: Any) -> Any:
        return json.loads(self._writers.of(schema)(value))

    def read(self, topic: str, schema_id: int, payload: bytes) -> SchemaAndValue:
        schema = self._schemas.get((schema_id, topic))
        if schema is None:
            schema = self._schemas[schema_id, topic] = self._schema(topic, schema_id)
        return schema, self._value_readers.of(schema)(scan_decimals(payload))

    def _schema(self, topic: str, schema_id: int) -> Schema:
        registered = self.schema_by_id(topic, schema_id)
        document = json.loads(registered.text)
        name = document.get("title") if isinstance(document, dict) else None
        return JsonSchemaReader(
            document,
            optional_if_not_required=self.settings["use.optional.for.nonrequired"],
            version=self.version_of(topic, registered, name),
        ).read()


class _Writers(Writers):
    """In JSON Schema, a map with keys other than texts is a list of objects, and a union is one of its members."""

    def _struct(self, schema: Schema) -> Writer:
        if schema.name != ONE_OF:
            return super()._struct(schema)
        members = [self._composed(each.schema) for each in schema.fields]

        def write(value: Any) -> str:
            for member, each in zip(members, value.values, strict=True):
                if each is not None:
                    return member(each)
            return "null"

        return write

    def _map(self, schema: Schema) -> Writer:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        if schema.key_schema.type is SchemaType.STRING and not schema.key_schema.optional:
            return super()._map(schema)
        of_key, of_value = self._composed(schema.key_schema), self._composed(schema.value_schema)
        return lambda value: (
            "["
            + ",".join(f'{{"key":{of_key(key)},"value":{of_value(each)}}}' for key, each in value.items())
            + "]"
        )


class _Readers(Readers):
    def _struct(self, schema: Schema) -> Reader:
        if schema.name != ONE_OF:
            return super()._struct(schema)
        members = [(each, self._composed(each.schema)) for each in schema.fields]

        def read(node: Any) -> Any:
            for field, member in members:
                if _fits(field.schema, node):
                    struct = Struct(schema)
                    struct.values[field.index] = member(node)
                    return struct
            raise DataError(f"Did not find matching oneof field for data: {node_type(node)}")

        return read

    def _map(self, schema: Schema) -> Reader:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        if schema.key_schema.type is SchemaType.STRING and not schema.key_schema.optional:
            return super()._map(schema)
        of_key, of_value = self._composed(schema.key_schema), self._composed(schema.value_schema)

        def read(node: Any) -> Any:
            if not isinstance(node, list):
                raise DataError(
                    "Maps with non-string fields should be encoded as JSON array of objects, "
                    f"but found {node_type(node)}"
                )
            return {of_key(each.get("key")): of_value(each.get("value")) for each in node}

        return read


_NODE_TYPES = {
    SchemaType.STRING: ("STRING",),
    SchemaType.BYTES: ("STRING", "NUMBER"),
    SchemaType.BOOLEAN: ("BOOLEAN",),
    SchemaType.ARRAY: ("ARRAY",),
    SchemaType.MAP: ("OBJECT", "ARRAY"),
    SchemaType.STRUCT: ("OBJECT",),
}


def _fits(schema: Schema, node: Any) -> bool:
    if node_type(node) not in _NODE_TYPES.get(schema.type, ("NUMBER",)):
        return False
    if schema.type in (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64):
        return isinstance(node, int)
    if schema.type is SchemaType.STRUCT and isinstance(node, dict):
        return all(schema.field(name) is not None for name in node)
    return True
