"""ByteArrayConverter: passes bytes through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.connect.converters.converter import Converter, SchemaAndValue
from ottla.connect.data.java_values import java_class
from ottla.connect.data.schema import OPTIONAL_BYTES, Schema, SchemaType
from ottla.connect.errors import DataError


class ByteArrayConverter(Converter):
    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type is not SchemaType.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")
        if value is None or type(value) is bytes:
            return value
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise DataError(f"ByteArrayConverter is not compatible with objects of type {java_class(value)}")

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return OPTIONAL_BYTES, data

    def all_to_connect(self, topic: str, data: Sequence[bytes | None]) -> tuple[Schema | None, list[Any]]:
        return OPTIONAL_BYTES, list(data)
