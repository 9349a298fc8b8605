"""Wraps each Java connector in a Python SourceConnector or SinkConnector class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from ottla.connect.errors import ConnectError
from ottla.connect.java import machine
from ottla.connect.java.config_definitions import definition_of
from ottla.connect.java.contexts import connector_context
from ottla.connect.java.data import offset_to_java, to_java_config
from ottla.connect.java.jars import JavaPlugin, Libraries
from ottla.connect.java.tasks import Calls, JavaSinkTask, JavaSourceTask


@cache
def connector_class(plugin: JavaPlugin, libraries: Libraries) -> type[Connector]:
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
        self.config_def = definition_of(self._call(self._java.config))  # type: ignore[misc]

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
