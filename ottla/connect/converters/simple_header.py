"""SimpleHeaderConverter: headers as text whose type is inferred on reading. Kafka's default for headers."""

from __future__ import annotations

from typing import Any

from ottla.connect.converters.converter import NULL, HeaderConverter, SchemaAndValue
from ottla.connect.data.schema import Schema
from ottla.connect.data.values import parse_string, value_to_string


class SimpleHeaderConverter(HeaderConverter):
    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        text = value_to_string(value, schema)
        return None if text is None else text.encode("utf-8", "replace")

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        return parse_string(data.decode("utf-8", "replace"))
