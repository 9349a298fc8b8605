"""Wraps converters of jars in Python classes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

from ottla.connect.converters.converter import Converter, HeaderConverter, SchemaAndValue
from ottla.connect.data.schema import Schema
from ottla.connect.java import machine
from ottla.connect.java.config_definitions import definition_of
from ottla.connect.java.data import Crossing, to_java_map
from ottla.connect.java.jars import JavaPlugin, Libraries
from ottla.connect.java.tasks import Calls

_PACKAGE = "org.apache.kafka.connect.storage"


@cache
def converter_class(plugin: JavaPlugin, libraries: Libraries) -> type[Converter]:
    return type(_simple(plugin), (JavaConverter,), _about(plugin, libraries))


@cache
def header_converter_class(plugin: JavaPlugin, libraries: Libraries) -> type[HeaderConverter]:
    return type(_simple(plugin), (JavaHeaderConverter,), _about(plugin, libraries))


def _simple(plugin: JavaPlugin) -> str:
    return plugin.class_name.rpartition(".")[2]


def _about(plugin: JavaPlugin, libraries: Libraries) -> dict[str, Any]:
    return {"plugin": plugin, "libraries": libraries, "version": plugin.version}


class _AnyJavaConverter:
    plugin: ClassVar[JavaPlugin]
    libraries: ClassVar[Libraries]
    interface: ClassVar[str]

    def __init__(self) -> None:
        machine.start(self.libraries)
        self._call = Calls(self.plugin)
        self._java = machine.new_of(self.plugin, self.interface)
        self.config_def = definition_of(self._call(self._java.config))

    def close(self) -> None:
        self._call(self._java.close)

    def _from_java(self, topic: str, found: Any) -> SchemaAndValue:
        return self._crossing.from_java(topic, found.schema(), found.value())

    def _cross(self) -> None:
        self._crossing = Crossing(self.libraries)


class JavaConverter(_AnyJavaConverter, Converter):
    interface = f"{_PACKAGE}.Converter"

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        self._cross()
        self._call(self._java.configure, to_java_map(config), is_key)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        given = self._crossing.to_java(topic, schema, value)
        return _bytes(self._call(self._java.fromConnectData, topic, given.schema(), given.value()))

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return self._from_java(topic, self._call(self._java.toConnectData, topic, _byte_array(data)))


class JavaHeaderConverter(_AnyJavaConverter, HeaderConverter):
    interface = f"{_PACKAGE}.HeaderConverter"

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        self._cross()
        self._call(self._java.configure, to_java_map({**config, "converter.type": "header"}))

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
