"""Finds connectors, converters, transforms and predicates by the names used in configs.

A name is one of: the Java class that the plugin replaces (`org.apache.kafka.connect.file.FileStreamSourceConnector`),
its Kafka alias (`FileStreamSourceConnector` or `FileStreamSource`), a Python class (`package.module.Class` or
`package.module:Class`), or an entry point in the group `ottla.connectors`.
"""

from __future__ import annotations

import difflib
import enum
import importlib
import importlib.util
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol

from ottla.connect.api import SinkConnector, SourceConnector
from ottla.connect.errors import ConnectError

_log = logging.getLogger(__name__)

ENTRY_POINTS = "ottla.connectors"


class PluginKind(enum.Enum):
    """The value is the class name suffix, which configs may omit."""

    CONNECTOR = "Connector"
    CONVERTER = "Converter"
    HEADER_CONVERTER = "HeaderConverter"
    TRANSFORMATION = "Transformation"
    PREDICATE = "Predicate"


#: The package and the name of its plugin table.
_TABLES = {
    PluginKind.CONNECTOR: ("ottla.connect.connectors", "PLUGINS"),
    PluginKind.CONVERTER: ("ottla.connect.converters", "PLUGINS"),
    PluginKind.HEADER_CONVERTER: ("ottla.connect.converters", "PLUGINS"),
    PluginKind.TRANSFORMATION: ("ottla.connect.transforms", "PLUGINS"),
    PluginKind.PREDICATE: ("ottla.connect.transforms", "PREDICATES"),
}


class Finder(Protocol):
    """Finds plugins not written in Python."""

    def find(self, name: str, kind: PluginKind) -> Plugin | None: ...

    def all(self, kind: PluginKind) -> Iterable[Plugin]: ...


_finders: list[Finder] = []


def add_finder(finder: Finder) -> None:
    """Register a finder for names that Python does not know."""
    _finders.append(finder)


class PluginNotFound(ConnectError):
    """No class has this name. The message is Kafka's, plus a suggestion."""


@dataclass(frozen=True)
class Plugin:
    #: The name in REST answers and configs: the Java name if the plugin replaces a Java class.
    class_name: str
    #: `module:Class`
    target: str
    kind: PluginKind

    def load(self) -> type[Any]:
        return _load(self.target)

    @property
    def type(self) -> str:
        """Return the REST type: source, sink, converter, header_converter, transformation or predicate."""
        if self.kind is not PluginKind.CONNECTOR:
            return self.kind.name.lower()
        return connector_type(self.load())

    @property
    def version(self) -> str:
        return version_of(self.load())


def connector_type(connector: type[Any]) -> str:
    if issubclass(connector, SourceConnector):
        return "source"
    return "sink" if issubclass(connector, SinkConnector) else "unknown"


def version_of(plugin: type[Any]) -> str:
    from ottla import __version__

    return str(getattr(plugin, "version", "") or __version__)


def find(name: str, kind: PluginKind = PluginKind.CONNECTOR) -> Plugin:
    """Raises PluginNotFound."""
    name = name.strip()
    known = _known(kind)
    if name in known:
        return known[name]
    aliases = _aliases(kind)
    if name in aliases:
        return aliases[name]
    if "." in name or ":" in name:
        found = _of_python(name, kind)
        if found is not None:
            return found
    elsewhere = find_elsewhere(name, kind)
    if elsewhere is not None:
        return elsewhere
    raise _not_found(name, kind)


def find_elsewhere(name: str, kind: PluginKind) -> Plugin | None:
    """Ask the registered finders for a name that Python does not know."""
    for finder in _finders:
        found = finder.find(name, kind)
        if found is not None:
            return found
    return None


def load_class(name: str, kind: PluginKind = PluginKind.CONNECTOR) -> type[Any]:
    """Raises PluginNotFound, or ConnectError if a required package is missing."""
    return find(name, kind).load()


def available(kinds: Iterable[PluginKind] = tuple(PluginKind)) -> list[Plugin]:
    """Return all loadable plugins by type and name. Other plugins are logged once and omitted."""
    found = {}
    for kind in kinds:
        for plugin in _known(kind).values():
            if _is_usable(plugin):
                found[plugin.class_name, plugin.type] = plugin
        for plugin in (each for finder in _finders for each in finder.all(kind)):
            found.setdefault((plugin.class_name, plugin.type), plugin)
    return sorted(found.values(), key=lambda each: (each.type, each.class_name))


def names(kind: PluginKind = PluginKind.CONNECTOR) -> Collection[str]:
    """Return the names of the plugins in Python."""
    return _known(kind).keys()


@cache
def _is_usable(plugin: Plugin) -> bool:
    try:
        plugin.load()
    except ConnectError as error:
        _log.warning("%s", error.message)
        return False
    return True


def _load(target: str) -> type[Any]:
    module, _, name = target.partition(":")
    try:
        loaded = importlib.import_module(module)
    except ImportError as error:
        raise ConnectError(
            f"{target} cannot be loaded: {error}. Install what it needs, for example with "
            "pip install 'ottla[connect]'."
        ) from None
    found: Any = loaded
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise ConnectError(f"{module} has no class {name}.")
    return found


@cache
def _known(kind: PluginKind) -> dict[str, Plugin]:
    found = {
        name: Plugin(name, target, kind) for name, target in _table(kind).items() if _serves_as(name, kind)
    }
    if kind is PluginKind.CONNECTOR:
        for each in entry_points(group=ENTRY_POINTS):
            found[each.name] = Plugin(each.name, each.value, kind)
    return found


def _table(kind: PluginKind) -> Mapping[str, str]:
    package, name = _TABLES[kind]
    table: Mapping[str, str] = getattr(importlib.import_module(package), name)
    return table


def _serves_as(name: str, kind: PluginKind) -> bool:
    """Tell converters and header converters apart, which share one table."""
    if kind is PluginKind.HEADER_CONVERTER:
        # Kafka's String, ByteArray and primitive converters also convert headers.
        return name.startswith("org.apache.kafka.")
    return not name.endswith(PluginKind.HEADER_CONVERTER.value)


@cache
def _aliases(kind: PluginKind) -> dict[str, Plugin]:
    """Map simple names, with and without suffix, to plugins. Ambiguous names are no aliases."""
    found: dict[str, list[Plugin]] = {}
    for plugin in _known(kind).values():
        simple = plugin.class_name.rsplit(".", 1)[-1].rsplit(":", 1)[-1]
        outer = simple.replace("$", "")
        names = {simple, simple.removesuffix(kind.value), outer}
        for name in names:
            found.setdefault(name, []).append(plugin)
    return {name: plugins[0] for name, plugins in found.items() if len(plugins) == 1}


def _of_python(name: str, kind: PluginKind) -> Plugin | None:
    target = name if ":" in name else ":".join(name.rpartition(".")[::2])
    module = target.partition(":")[0]
    try:
        if importlib.util.find_spec(module) is None:
            return None
    except (ImportError, ValueError):
        return None
    _load(target)
    return Plugin(name, target, kind)


def _not_found(name: str, kind: PluginKind) -> PluginNotFound:
    known = _known(kind)
    listed = ", ".join(sorted(known))
    close = difflib.get_close_matches(name, known, 1, 0.6) or difflib.get_close_matches(
        name.rsplit(".", 1)[-1], _aliases(kind), 1, 0.6
    )
    guess = f" Did you mean {close[0]}?" if close else ""
    return PluginNotFound(
        f"Failed to find any class that implements {kind.value} and which name matches {name}, "
        f"available {kind.value.lower()}s are: {listed}.{guess}"
    )
