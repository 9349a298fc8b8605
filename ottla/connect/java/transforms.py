"""Wraps transforms and predicates of jars in Python classes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

from ottla.connect.data.record import ConnectRecord
from ottla.connect.java import machine
from ottla.connect.java.config_definitions import definition_of
from ottla.connect.java.data import Crossing, to_java_map
from ottla.connect.java.jars import JavaPlugin, Libraries
from ottla.connect.java.tasks import Calls
from ottla.connect.transforms.base import Predicate, Transform

_PACKAGE = "org.apache.kafka.connect.transforms"


@cache
def transform_class(plugin: JavaPlugin, libraries: Libraries) -> type[Transform]:
    return type(_simple(plugin), (JavaTransform,), _about(plugin, libraries))


@cache
def predicate_class(plugin: JavaPlugin, libraries: Libraries) -> type[Predicate]:
    return type(_simple(plugin), (JavaPredicate,), _about(plugin, libraries))


def _simple(plugin: JavaPlugin) -> str:
    return plugin.class_name.rpartition(".")[2]


def _about(plugin: JavaPlugin, libraries: Libraries) -> dict[str, Any]:
    return {"plugin": plugin, "libraries": libraries, "version": plugin.version}


class _RecordPlugin:
    """Loads the Java object, and configures it with all texts, as Kafka does."""

    plugin: ClassVar[JavaPlugin]
    libraries: ClassVar[Libraries]
    interface: ClassVar[str]

    def __init__(self) -> None:
        machine.start(self.libraries)
        self._call = Calls(self.plugin)
        self._java = machine.new_of(self.plugin, self.interface)
        self.config_def = definition_of(self._call(self._java.config))

    def configure(self, config: Mapping[str, str]) -> None:
        self._crossing = Crossing(self.libraries)
        self._call(self._java.configure, to_java_map(config))

    def close(self) -> None:
        self._call(self._java.close)


class JavaTransform(_RecordPlugin, Transform):
    interface = f"{_PACKAGE}.Transformation"

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        applied = self._call(self._java.apply, self._crossing.record_to_java(record))
        return None if applied is None else record.replaced(**self._crossing.fields(applied))


class JavaPredicate(_RecordPlugin, Predicate):
    interface = f"{_PACKAGE}.predicates.Predicate"

    def test(self, record: ConnectRecord) -> bool:
        return bool(self._call(self._java.test, self._crossing.record_to_java(record)))
