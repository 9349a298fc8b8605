"""Registers the connectors in `plugin.path` beside those in Python."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ottla.connect import plugins
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.java import jars
from ottla.connect.plugins import Plugin, PluginKind

#: Class name prefix that selects the connector from a jar even if Python has an equivalent.
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

    def find(self, name: str) -> Plugin | None:
        found = jars.find(name.removeprefix(PREFIX), self._worker.plugin_path)
        return None if found is None else self._plugin(found)

    def all(self) -> Iterable[Plugin]:
        """Name a connector that Python has as well so that the name selects the one in the jar."""
        ours = plugins.names()
        found = (self._plugin(each) for each in jars.plugins(self._worker.plugin_path))
        return [
            replace(each, class_name=PREFIX + each.class_name) if each.class_name in ours else each
            for each in found
        ]

    def _plugin(self, found: jars.JavaPlugin) -> Plugin:
        return _JavaPlugin(found.class_name, found.class_name, PluginKind.CONNECTOR, found, self._worker)


@dataclass(frozen=True)
class _JavaPlugin(Plugin):
    found: jars.JavaPlugin
    worker: WorkerConfig

    def load(self) -> type[Any]:
        from ottla.connect.java.connectors import class_for

        return class_for(self.found, jars.libraries(self.worker.properties, self.worker.plugin_path))

    @property
    def type(self) -> str:
        return self.found.type or super().type

    @property
    def version(self) -> str:
        return self.found.version
