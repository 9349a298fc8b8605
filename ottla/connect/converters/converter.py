"""The converter interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance, one_of
from ottla.connect.data.columns import keep_in_step, only_schema
from ottla.connect.data.schema import Schema

SchemaAndValue = tuple[Schema | None, Any]
NULL: SchemaAndValue = (None, None)


def converter_config() -> ConfigDef:
    return ConfigDef().define(
        "converter.type",
        ConfigType.STRING,
        None,
        Importance.LOW,
        "Whether it converts keys, values or headers. The worker sets it.",
        validator=_kind,
    )


def _kind(name: str, value: Any) -> None:
    if value is not None:
        one_of("key", "value", "header")(name, value)


class Converter:
    """Converts between Connect values and the bytes of a key or value. One thread calls it at a time.

    A header converter does the same for header values and ignores the header's key. The runtime may convert a value
    twice, when another record in the same batch fails.
    """

    config_def: ClassVar[ConfigDef] = converter_config()
    version: ClassVar[str] = ""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        keep_in_step(cls, "from_connect", "all_from_connect", Converter.all_from_connect)
        keep_in_step(cls, "to_connect", "all_to_connect", Converter.all_to_connect)

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        """`config` holds the settings without the prefix `key.converter.`, `value.converter.` or `header.converter.`"""
        self.config_def.parse(config)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Raises DataError for unsupported values."""
        raise NotImplementedError

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Raises DataError for malformed data."""
        raise NotImplementedError

    def all_from_connect(
        self, topic: str, schema: Schema | None, values: Sequence[Any]
    ) -> list[bytes | None]:
        """Apply `from_connect` to all values. May raise any exception for unsupported values."""
        return [self.from_connect(topic, schema, each) for each in values]

    def all_to_connect(self, topic: str, data: Sequence[bytes | None]) -> tuple[Schema | None, list[Any]]:
        """Apply `to_connect` to all values, and return their common schema with the values.

        Raises MixedRecordsError if the schemas differ. May raise any exception for malformed data.
        """
        schemas, values = zip(*(self.to_connect(topic, each) for each in data), strict=True)
        return only_schema(schemas), list(values)

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return self.from_connect(topic, schema, value)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        return self.to_connect(topic, data)

    def close(self) -> None: ...


class HeaderConverter(Converter):
    """A converter for headers only."""

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        return self.from_connect_header(topic, "", schema, value)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return self.to_connect_header(topic, "", data)
