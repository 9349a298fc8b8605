"""Avro with a registry: io.confluent.connect.avro.AvroConverter."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.client.avro_decoding import AvroDecoder, is_bounded
from ottla.client.schema_registry import AVRO
from ottla.client.schema_registry import Schema as RegisteredSchema
from ottla.connect.converters.converter import SchemaAndValue
from ottla.connect.converters.registry.avro_schemas import (
    DEFAULT_NAME,
    DEFAULT_NAMESPACE,
    AvroReader,
    AvroWriter,
)
from ottla.connect.converters.registry.avro_values import (
    Convert,
    default_json,
    from_avro,
    from_default,
    to_avro,
)
from ottla.connect.converters.registry.base import RegistryConverter, required_schema
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.errors import ConnectError, DataError


class AvroConverter(RegistryConverter):
    schema_type = AVRO

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        super().configure(config, is_key)
        self._texts: dict[Schema, tuple[str, Convert]] = {}
        self._parsed: dict[str, Any] = {}
        #: Decoders that validate payloads whose schema lets a few bytes claim millions of items.
        self._guards: dict[str, AvroDecoder] = {}
        self._readers: dict[tuple[int, str], tuple[Schema, Any, AvroDecoder | None, Convert]] = {}

    # To bytes

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None and (schema is None or schema.optional):
            return None
        schema_id, used, convert = self._prepared(topic, schema)
        return self.frame(schema_id, self._encoded(topic, used, convert(value)))

    def all_from_connect(
        self, topic: str, schema: Schema | None, values: Sequence[Any]
    ) -> list[bytes | None]:
        if any(each is None for each in values):
            return super().all_from_connect(topic, schema, values)
        schema_id, used, convert = self._prepared(topic, schema)
        return [self.frame(schema_id, self._encoded(topic, used, convert(each))) for each in values]

    def _prepared(self, topic: str, schema: Schema | None) -> tuple[int, RegisteredSchema, Convert]:
        """Return the schema id to write with, that schema, and the value conversion."""
        schema = required_schema(schema, topic, "Avro")
        found = self._texts.get(schema)
        if found is None:
            text = json.dumps(AvroWriter(default_json).written(schema), separators=(",", ":"))
            if len(self._texts) >= self.settings["schemas.cache.config"]:
                self._texts.clear()
            found = self._texts[schema] = (text, to_avro(schema))
        text, convert = found
        record = (
            (schema.name or f"{DEFAULT_NAMESPACE}.{DEFAULT_NAME}")
            if schema.type is SchemaType.STRUCT
            else None
        )
        schema_id, used = self.registered(topic, text, record)
        return schema_id, used, convert

    def _encoded(self, topic: str, used: RegisteredSchema, value: Any) -> bytes:
        import fastavro

        out = io.BytesIO()
        try:
            fastavro.schemaless_writer(out, self._parse(used), value)
        except ConnectError:
            raise
        except Exception as error:  # fastavro raises various exceptions
            reason = " ".join(str(error).split())[:200]
            raise DataError(f"Failed to serialize Avro data from topic {topic}: {reason}") from None
        return out.getvalue()

    def _parse(self, used: RegisteredSchema) -> Any:
        import fastavro

        parsed = self._parsed.get(used.text)
        if parsed is None:
            named: dict[str, Any] = {}
            for each in self.registry.referenced(used).values():
                fastavro.parse_schema(_without_logical_types(json.loads(each.text)), named_schemas=named)
            parsed = fastavro.parse_schema(_without_logical_types(json.loads(used.text)), named_schemas=named)
            self._parsed[used.text] = parsed
            if not is_bounded(parsed, named):
                self._guards[used.text] = AvroDecoder(parsed, named)
        return parsed

    # From bytes

    def read(self, topic: str, schema_id: int, payload: bytes) -> SchemaAndValue:
        import fastavro

        found = self._readers.get((schema_id, topic))
        if found is None:
            found = self._readers[schema_id, topic] = self._reader(topic, schema_id)
        schema, parsed, guard, convert = found
        try:
            if guard is not None:
                guard.decode(payload)
            value = fastavro.schemaless_reader(
                io.BytesIO(payload), parsed, None, return_named_type=True, return_named_type_override=True
            )
        except Exception as error:  # fastavro raises various exceptions
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise DataError(f"Failed to deserialize data for topic {topic} to Avro: {reason}") from None
        return schema, convert(value)

    def _reader(self, topic: str, schema_id: int) -> tuple[Schema, Any, AvroDecoder | None, Convert]:
        registered = self.schema_by_id(topic, schema_id)
        reader = AvroReader(from_default)
        for each in self._asked(topic, lambda: self.registry.referenced(registered)).values():
            reader.read(json.loads(each.text))
        avro = json.loads(registered.text)
        plain = reader.read(avro)
        version = self.version_of(topic, registered, plain.name)
        schema = reader.read(avro, version=version) if version is not None else plain
        parsed = self._parse(registered)
        return schema, parsed, self._guards.get(registered.text), from_avro(schema, avro, reader)


def _without_logical_types(avro: Any) -> Any:
    """Remove logical types. We convert them ourselves without rounding."""
    if isinstance(avro, list):
        return [_without_logical_types(each) for each in avro]
    if not isinstance(avro, dict):
        return avro
    return {
        key: _without_logical_types(each) if key in ("type", "items", "values", "fields") else each
        for key, each in avro.items()
        if key not in ("logicalType", "precision", "scale")
    }
