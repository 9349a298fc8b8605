"""Registers the plugins in `plugin.path` beside those in Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ottla.connect import plugins
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.java import jars
from ottla.connect.plugins import Plugin, PluginKind

#: Class name prefix that selects the plugin from a jar even if Python has an equivalent.
PREFIX = "java:"

_known: set[tuple[str, ...]] = set()


def use_plugin_path(worker: WorkerConfig) -> None:
    """Make `plugins.find` search the worker's `plugin.path`."""
    path = tuple(worker.plugin_path)
    if path and path not in _known:
        _known.add(path)
        plugins.add_finder(_JavaFinder(worker))


class _JavaFinder:
    def __init__(self, worker: WorkerConfig) -> None:
        self._worker = worker

    def find(self, name: str, kind: PluginKind) -> Plugin | None:
        found = jars.find(name.removeprefix(PREFIX), self._worker.plugin_path, _types(kind))
        return None if found is None else self._plugin(found, kind)

    def all(self, kind: PluginKind) -> Iterable[Plugin]:
        """Name a plugin that Python has as well so that the name selects the one in the jar."""
        ours = plugins.names(kind)
        found = [
            self._plugin(each, kind)
            for each in jars.plugins(self._worker.plugin_path)
            if each.type in _types(kind)
        ]
        return [
            replace(each, class_name=PREFIX + each.class_name) if each.class_name in ours else each
            for each in found
        ]

    def _plugin(self, found: jars.JavaPlugin, kind: PluginKind) -> Plugin:
        return _JavaPlugin(found.class_name, found.class_name, kind, found, self._worker)


def _types(kind: PluginKind) -> Sequence[str]:
    return jars.CONNECTORS if kind is PluginKind.CONNECTOR else (kind.name.lower(),)


@dataclass(frozen=True)
class _JavaPlugin(Plugin):
    found: jars.JavaPlugin
    worker: WorkerConfig

    def load(self) -> type[Any]:
        from ottla.connect.java.connectors import connector_class
        from ottla.connect.java.converters import JavaConverter, JavaHeaderConverter
        from ottla.connect.java.plugin_object import wrapper_class
        from ottla.connect.java.transforms import JavaPredicate, JavaTransform

        libraries = jars.libraries(self.worker.properties, self.worker.plugin_path)
        # Behind its own jars, each plugin sees a copy of Kafka's other libraries.
        plugin = replace(self.found, jars=(*self.found.jars, *libraries.rest))
        if self.kind is PluginKind.CONNECTOR:
            return connector_class(plugin, libraries)
        wrapper = {
            PluginKind.CONVERTER: JavaConverter,
            PluginKind.HEADER_CONVERTER: JavaHeaderConverter,
            PluginKind.TRANSFORMATION: JavaTransform,
            PluginKind.PREDICATE: JavaPredicate,
        }[self.kind]
        return wrapper_class(wrapper, plugin, libraries)

    @property
    def type(self) -> str:
        return self.found.type or super().type

    @property
    def version(self) -> str:
        return self.found.version
