"""Numbers and booleans in the format of Kafka's serializers: big-endian, fixed size."""

from __future__ import annotations

import struct
from typing import Any, ClassVar

from ottla.connect.converters.converter import Converter, SchemaAndValue
from ottla.connect.data.java_values import Float32, as_float32, java_class
from ottla.connect.data.schema import (
    OPTIONAL_BOOLEAN,
    OPTIONAL_FLOAT32,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT16,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    Schema,
    SchemaType,
)
from ottla.connect.errors import DataError


class _NumberConverter(Converter):
    """With a schema, a number must have exactly this type. Without one, any number in range fits."""

    type_name: ClassVar[str]
    schema: ClassVar[Schema]
    layout: ClassVar[struct.Struct]
    python_type: ClassVar[type]

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        fits = isinstance(value, self.python_type) and type(value) is not bool
        if not fits or (schema is not None and schema.type is not self.schema.type):
            raise self._unfit(value, schema)
        try:
            return self.packed(value)
        except (struct.error, OverflowError):
            raise self._unfit(value, schema) from None

    def packed(self, value: Any) -> bytes:
        return self.layout.pack(value)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return self.schema, None
        if len(data) != self.layout.size:
            raise DataError(f"Failed to deserialize {self.type_name}: ")
        return self.schema, self.layout.unpack(data)[0]

    def _unfit(self, value: Any, schema: Schema | None) -> DataError:
        return DataError(f"Failed to serialize to {self.type_name} (was {java_class(value, schema)}): ")


class ShortConverter(_NumberConverter):
    type_name = "short"
    schema = OPTIONAL_INT16
    layout = struct.Struct(">h")
    python_type = int


class IntegerConverter(_NumberConverter):
    type_name = "integer"
    schema = OPTIONAL_INT32
    layout = struct.Struct(">i")
    python_type = int


class LongConverter(_NumberConverter):
    type_name = "long"
    schema = OPTIONAL_INT64
    layout = struct.Struct(">q")
    python_type = int


class FloatConverter(_NumberConverter):
    type_name = "float"
    schema = OPTIONAL_FLOAT32
    layout = struct.Struct(">f")
    python_type = float

    def packed(self, value: float) -> bytes:
        return self.layout.pack(as_float32(value))

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        schema, value = super().to_connect(topic, data)
        return schema, None if value is None else Float32(value)


class DoubleConverter(_NumberConverter):
    type_name = "double"
    schema = OPTIONAL_FLOAT64
    layout = struct.Struct(">d")
    python_type = float


class BooleanConverter(Converter):
    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type is not SchemaType.BOOLEAN:
            raise DataError(f"Invalid schema type for BooleanConverter: {schema.type.name}")
        if value is None:
            return None
        if not isinstance(value, bool):
            raise DataError(f"BooleanConverter is not compatible with objects of type {java_class(value)}")
        return b"\1" if value else b"\0"

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return OPTIONAL_BOOLEAN, None
        if data not in (b"\0", b"\1"):
            raise DataError("Failed to deserialize boolean: ")
        return OPTIONAL_BOOLEAN, data == b"\1"
