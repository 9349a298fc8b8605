"""What a converter is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ottla.spark.connect.config.config_def import ConfigDef, ConfigType, Importance, one_of
from ottla.spark.connect.data.schema import Schema

SchemaAndValue = tuple[Schema | None, Any]
NULL: SchemaAndValue = (None, None)


def converter_config() -> ConfigDef:
    """What every converter of Kafka's own has."""
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
    """Between a value of Connect and the bytes of a key or a value. One thread at a time calls it.

    As a header converter it does the same with the bytes of a header, whatever the header's key.
    """

    config_def: ClassVar[ConfigDef] = converter_config()
    version: ClassVar[str] = ""

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        """`config` has the settings that follow `key.converter.`, `value.converter.` or `header.converter.`"""
        self.config_def.parse(config)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Raises DataError for what it cannot convert."""
        raise NotImplementedError

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Raises DataError for what it cannot convert."""
        raise NotImplementedError

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return self.from_connect(topic, schema, value)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        return self.to_connect(topic, data)

    def close(self) -> None: ...


class HeaderConverter(Converter):
    """One that can be used for headers only."""

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        return self.from_connect_header(topic, "", schema, value)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return self.to_connect_header(topic, "", data)
