"""Wraps converters of jars in Python classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.converters.converter import Converter, HeaderConverter, SchemaAndValue
from ottla.connect.data.schema import Schema
from ottla.connect.java.data import to_java_map
from ottla.connect.java.plugin_object import JavaObject

_PACKAGE = "org.apache.kafka.connect.storage"


class _JavaConverter(JavaObject):
    def _from_java(self, topic: str, found: Any) -> SchemaAndValue:
        return self._crossing.from_java(topic, found.schema(), found.value())


class JavaConverter(_JavaConverter, Converter):
    interface = f"{_PACKAGE}.Converter"

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        self._configure(to_java_map(config), is_key)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        given = self._crossing.to_java(topic, schema, value)
        return _bytes(self._call(self._java.fromConnectData, topic, given.schema(), given.value()))

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return self._from_java(topic, self._call(self._java.toConnectData, topic, _byte_array(data)))


class JavaHeaderConverter(_JavaConverter, HeaderConverter):
    interface = f"{_PACKAGE}.HeaderConverter"

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        self._configure(to_java_map({**config, "converter.type": "header"}))

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        given = self._crossing.to_java(topic, schema, value)
        return _bytes(self._call(self._java.fromConnectHeader, topic, key, given.schema(), given.value()))

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        found = self._call(self._java.toConnectHeader, topic, key, _byte_array(data))
        return self._from_java(topic, found)


def _bytes(found: Any) -> bytes | None:
    return None if found is None else bytes(found)


def _byte_array(data: bytes | None) -> Any:
    import jpype

    return None if data is None else jpype.JArray(jpype.JByte)(data)
