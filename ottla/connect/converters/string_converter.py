"""StringConverter: text in a configurable encoding, by default UTF-8."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.connect.config.config_def import ConfigError, ConfigType, Importance
from ottla.connect.converters.converter import Converter, SchemaAndValue, converter_config
from ottla.connect.data.java_values import java_text
from ottla.connect.data.schema import OPTIONAL_STRING, Schema, SchemaType


class StringConverter(Converter):
    config_def = converter_config().define(
        "converter.encoding",
        ConfigType.STRING,
        "UTF-8",
        Importance.HIGH,
        "The character set of the bytes, by its name in Java or Python.",
    )

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        settings = self.config_def.parse(config)
        role = "key" if is_key else "value"
        encoding = settings["converter.encoding"]
        self._encode_with = self._known(
            config.get(f"{role}.serializer.encoding") or config.get("serializer.encoding") or encoding
        )
        self._decode_with = self._known(
            config.get(f"{role}.deserializer.encoding") or config.get("deserializer.encoding") or encoding
        )

    @staticmethod
    def _known(encoding: str) -> str:
        try:
            return codecs.lookup(encoding).name
        except LookupError:
            raise ConfigError(f"Unsupported encoding {encoding}") from None

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, str):
            value = java_text(value, single=schema is not None and schema.type is SchemaType.FLOAT32)
        return str(value).encode(self._encode_with, "replace")

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return OPTIONAL_STRING, None
        return OPTIONAL_STRING, data.decode(self._decode_with, "replace")

    def all_from_connect(
        self, topic: str, schema: Schema | None, values: Sequence[Any]
    ) -> list[bytes | None]:
        encoding = self._encode_with
        return [
            each.encode(encoding, "replace")
            if each.__class__ is str
            else self.from_connect(topic, schema, each)
            for each in values
        ]

    def all_to_connect(self, topic: str, data: Sequence[bytes | None]) -> tuple[Schema | None, list[Any]]:
        encoding = self._decode_with
        return OPTIONAL_STRING, [None if each is None else each.decode(encoding, "replace") for each in data]
