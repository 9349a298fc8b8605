"""Wraps each Java connector in a Python SourceConnector or SinkConnector class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

from ottla.connect.api import (
    Config,
    Connector,
    SinkConnector,
    SourceConnector,
    SourceOffset,
    SourcePartition,
)
from ottla.connect.config.config_def import NO_DEFAULT, ConfigDef, ConfigType, Importance
from ottla.connect.errors import ConnectError
from ottla.connect.java import machine
from ottla.connect.java.contexts import connector_context
from ottla.connect.java.data import from_java, offset_to_java, to_java_config
from ottla.connect.java.jars import JavaPlugin, Libraries
from ottla.connect.java.tasks import Calls, JavaSinkTask, JavaSourceTask


@cache
def class_for(plugin: JavaPlugin, libraries: Libraries) -> type[Connector]:
    plugin = replace(plugin, jars=(*plugin.jars, *libraries.rest))
    kind = plugin.type or _kind(plugin, libraries)
    about = {"plugin": plugin, "libraries": libraries}
    simple = plugin.class_name.rpartition(".")[2]
    if kind == "source":
        task = type(f"{simple}Task", (JavaSourceTask,), about)
        return type(simple, (JavaSourceConnector,), {**about, "task_class": task, "version": plugin.version})
    task = type(f"{simple}Task", (JavaSinkTask,), about)
    return type(simple, (JavaSinkConnector,), {**about, "task_class": task, "version": plugin.version})


def _kind(plugin: JavaPlugin, libraries: Libraries) -> str:
    import jpype

    machine.start(libraries)
    loaded = machine.new(plugin)
    for kind, base in (("source", "source.SourceConnector"), ("sink", "sink.SinkConnector")):
        if isinstance(loaded, jpype.JClass(f"org.apache.kafka.connect.{base}")):
            return kind
    raise ConnectError(f"The Java class {plugin.class_name} is no connector.")


class _JavaConnector(Connector):
    plugin: ClassVar[JavaPlugin]
    libraries: ClassVar[Libraries]
    _is_source: ClassVar[bool]

    def __init__(self) -> None:
        machine.start(self.libraries)
        self._call = Calls(self.plugin)
        self._java: Any = machine.new(self.plugin)
        self._started = False
        self.version = str(self._call(self._java.version) or "")  # type: ignore[misc]
        self.config_def = _definition(self._call(self._java.config))  # type: ignore[misc]

    def start(self, config: Config) -> None:
        super().start(config)
        self._call(self._java.initialize, connector_context(self.context, self._is_source))
        self._call(self._java.start, to_java_config(config, self.plugin.class_name))
        self._started = True

    def stop(self) -> None:
        if self._started:
            self._call(self._java.stop)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [
            {str(entry.getKey()): str(entry.getValue()) for entry in each.entrySet()}
            for each in self._call(self._java.taskConfigs, max_tasks)
        ]

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        found = self._call(self._java.validate, to_java_config(config, self.plugin.class_name))
        errors = {
            str(each.name()): [str(text) for text in each.errorMessages()] for each in found.configValues()
        }
        return {name: texts for name, texts in errors.items() if texts}


class JavaSourceConnector(_JavaConnector, SourceConnector):
    _is_source = True

    def check_offsets(
        self, config: Config, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> None:
        import jpype

        asked = jpype.java.util.HashMap()
        for partition, offset in offsets:
            asked.put(offset_to_java(partition), offset_to_java(offset))
        self._call(self._java.alterOffsets, to_java_config(config, self.plugin.class_name), asked)


class JavaSinkConnector(_JavaConnector, SinkConnector):
    _is_source = False
    delivery = "at least once"


def _definition(java: Any) -> ConfigDef:
    """Convert the definition without validators. The connector's `validate` checks the values."""
    import jpype

    definition = ConfigDef()
    no_default = jpype.JClass("org.apache.kafka.common.config.ConfigDef").NO_DEFAULT_VALUE
    for entry in java.configKeys().entrySet():
        key = entry.getValue()
        default = _field(key, "defaultValue")
        name, group = str(_field(key, "name")), _field(key, "group")
        definition.define(
            name,
            ConfigType[str(_field(key, "type").name())],
            NO_DEFAULT if default is not None and no_default.equals(default) else _default(default),
            Importance[str(_field(key, "importance").name())],
            str(_field(key, "documentation") or ""),
            group=None if group is None else str(group),
            order=int(_field(key, "orderInGroup")),
            width=str(_field(key, "width").name()),
            display_name=str(_field(key, "displayName") or name),
            dependents=tuple(str(each) for each in _field(key, "dependents")),
        )
    return definition


def _field(key: Any, name: str) -> Any:
    """Read a public field. In some Kafka releases a method of the same name hides it."""
    return key.getClass().getField(name).get(key)


def _default(value: Any) -> Any:
    import jpype

    if value is None:
        return None
    if isinstance(value, jpype.java.util.Collection):
        return [str(each) for each in value]
    if isinstance(value, jpype.java.lang.Class):
        return str(value.getName())
    return from_java(value)
