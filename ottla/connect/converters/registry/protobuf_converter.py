"""Protobuf with a registry: io.confluent.connect.protobuf.ProtobufConverter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.schema_codecs import check_fields, message_indexes
from ottla.client.schema_registry import PROTOBUF
from ottla.client.schema_registry import Schema as RegisteredSchema
from ottla.connect.config.config_def import ConfigType, Importance
from ottla.connect.converters.converter import SchemaAndValue
from ottla.connect.converters.registry.base import RegistryConverter, registry_config, required_schema
from ottla.connect.converters.registry.protobuf_schemas import ProtoWriter, to_connect_schema
from ottla.connect.converters.registry.protobuf_values import Convert, fill, reader
from ottla.connect.data.schema import Schema
from ottla.connect.data.struct import Struct
from ottla.connect.errors import ConnectError, DataError
from ottla.registry.schemas.parsed import InvalidSchema

#: Message index before the payload: the first type of the file.
_FIRST_MESSAGE = b"\0"
#: Smaller payloads cannot claim many fields.
_LARGE = 1 << 13


class ProtobufConverter(RegistryConverter):
    schema_type = PROTOBUF
    config_def = registry_config().define(
        "optional.for.nullables",
        ConfigType.BOOLEAN,
        False,
        Importance.MEDIUM,
        "Whether optional fields are `optional` in the .proto, so that null is not the same as 0 or an empty text.",
    )

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        super().configure(config, is_key)
        self._texts: dict[Schema, str] = {}
        self._files: dict[str, Any] = {}
        self._readers: dict[tuple[int, str, tuple[int, ...]], tuple[Schema, Any, Convert]] = {}

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        schema = required_schema(schema, topic, "Protobuf")
        text = self._texts.get(schema)
        if text is None:
            writer = ProtoWriter(optional_for_nullables=self.settings["optional.for.nullables"])
            text = self._texts[schema] = writer.written(schema)
        if not isinstance(value, Struct) or (value.schema is not schema and value.schema != schema):
            raise DataError("Mismatching struct schema")
        schema_id, used = self.registered(topic, text, schema.name)
        message = fill(self._message_class(topic, used, (0,))(), value)
        return self.frame(schema_id, _FIRST_MESSAGE + bytes(message.SerializeToString()))

    def read(self, topic: str, schema_id: int, payload: bytes) -> SchemaAndValue:
        try:
            path, begin = message_indexes(payload)
            found = self._readers.get((schema_id, topic, path))
            if found is None:
                found = self._readers[schema_id, topic, path] = self._reader(topic, schema_id, path)
            schema, message_class, convert = found
            message = message_class.FromString(payload[begin:])
            if len(payload) > _LARGE:
                check_fields(message, len(payload))
        except ConnectError:
            raise
        except Exception as error:  # protobuf raises various exceptions
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise DataError(f"Failed to deserialize data for topic {topic} to Protobuf: {reason}") from None
        return schema, convert(message)

    def _reader(self, topic: str, schema_id: int, path: tuple[int, ...]) -> tuple[Schema, Any, Convert]:
        registered = self.schema_by_id(topic, schema_id)
        message_class = self._message_class(topic, registered, path)
        descriptor = message_class.DESCRIPTOR
        version = self.version_of(topic, registered, descriptor.full_name)
        schema = to_connect_schema(descriptor, version)
        return schema, message_class, reader(schema, descriptor)

    def _message_class(self, topic: str, used: RegisteredSchema, path: tuple[int, ...]) -> Any:
        from google.protobuf import message_factory

        found = self._files.get(used.text)
        if found is None:
            found = self._files[used.text] = self._asked(topic, lambda: self._file(used))
        order, descriptor = found
        messages = [descriptor.message_types_by_name[name] for name in order]
        message = messages[path[0]]
        for index in path[1:]:
            message = message.nested_types[index]
        return message_factory.GetMessageClass(message)

    def _file(self, used: RegisteredSchema) -> tuple[list[str], Any]:
        from ottla.registry.schemas.protobuf import parse_protobuf
        from ottla.registry.schemas.protobuf.validation import pool_of

        try:
            parsed: dict[str, Any] = {}
            for name, each in self.registry.referenced(used).items():
                parsed[name] = parse_protobuf(each.text, parsed, stored=True)
            file = parse_protobuf(used.text, parsed, stored=True)
        except InvalidSchema as error:
            raise DataError(f"The Protobuf schema cannot be used: {error}") from None
        pool = pool_of(file.raw, file.imports)
        return [each.name for each in file.raw.message_type], pool.FindFileByName(
            file.raw.name or "default.proto"
        )
