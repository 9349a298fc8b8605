"""Base of the Python classes that wrap transforms, predicates and converters of jars."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, TypeVar

from ottla.connect.java import machine
from ottla.connect.java.config_definitions import definition_of
from ottla.connect.java.data import Crossing
from ottla.connect.java.jars import JavaPlugin, Libraries
from ottla.connect.java.tasks import Calls


class JavaObject:
    """Creates the Java object when the plugin is created, and its data conversion when it is configured."""

    plugin: ClassVar[JavaPlugin]
    libraries: ClassVar[Libraries]
    interface: ClassVar[str]

    def __init__(self) -> None:
        machine.start(self.libraries)
        self._call = Calls(self.plugin)
        self._java = machine.new_of(self.plugin, self.interface)
        self.config_def = definition_of(self._call(self._java.config))

    def _configure(self, *arguments: Any) -> None:
        self._crossing = Crossing(self.libraries)
        self._call(self._java.configure, *arguments)

    def close(self) -> None:
        self._call(self._java.close)


Base = TypeVar("Base", bound=JavaObject)


@cache
def wrapper_class(base: type[Base], plugin: JavaPlugin, libraries: Libraries) -> type[Base]:
    """Return a subclass that is named like the Java class and wraps it."""
    attributes = {"plugin": plugin, "libraries": libraries, "version": plugin.version}
    return type(plugin.class_name.rpartition(".")[2], (base,), attributes)
