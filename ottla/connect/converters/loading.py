"""Creates configured converters."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from ottla.connect.config.config_def import ConfigError, invalid
from ottla.connect.converters.converter import Converter
from ottla.connect.errors import ConnectError
from ottla.connect.plugins import PluginKind, find_elsewhere

_DEFAULTS = {"header": "org.apache.kafka.connect.storage.SimpleHeaderConverter"}


def load_converter(config: Mapping[str, str], worker_defaults: Mapping[str, str], role: str) -> Converter:
    """Create a connector's converter for `role`: key, value or header.

    A connector that names a class also supplies the settings of that class. Otherwise the worker's class and settings
    apply, and the connector's settings are ignored, as in Kafka.
    """
    setting = f"{role}.converter"
    if config.get(setting) is not None:
        name, source = config[setting], config
    else:
        name, source = worker_defaults.get(setting) or _DEFAULTS.get(role, ""), worker_defaults
    if not name:
        raise ConfigError(f'Missing required configuration "{setting}" which has no default value.')
    kind = PluginKind.HEADER_CONVERTER if role == "header" else PluginKind.CONVERTER
    converter = converter_class(name, setting, kind)()
    prefix = f"{setting}."
    settings = {key.removeprefix(prefix): value for key, value in source.items() if key.startswith(prefix)}
    settings["converter.type"] = role
    converter.configure(settings, role == "key")
    return converter


def converter_class(
    name: str, setting: str = "key.converter", kind: PluginKind = PluginKind.CONVERTER
) -> type[Converter]:
    """Find a class by Java name, by alias with or without "Converter", or by Python path: `my.module:MyConverter`."""
    from ottla.connect.converters import PLUGINS

    name = name.strip()
    found = load_class(name, PLUGINS, "Converter") or load_elsewhere(name, setting, kind)
    if found is None:
        raise invalid(setting, name, f"Class {name} could not be found.")
    if not (isinstance(found, type) and issubclass(found, Converter)):
        raise invalid(setting, name, f"{name} is not a converter: it does not extend Converter.")
    return found


def load_elsewhere(name: str, setting: str, kind: PluginKind) -> type[Any] | None:
    """Load a class from the jars of `plugin.path`. Raises ConfigError if Java cannot run."""
    plugin = find_elsewhere(name, kind)
    try:
        return None if plugin is None else plugin.load()
    except ConnectError as error:
        raise invalid(setting, name, error.message) from None


def load_class(name: str, plugins: Mapping[str, str], suffix: str) -> Any:
    """Return None if no class has this name."""
    where = plugins.get(name)
    if where is None:
        for java_name, place in plugins.items():
            simple = java_name.rpartition(".")[2]
            if name in (simple, simple.removesuffix(suffix)):
                where = place
                break
    if where is None:
        where = name if ":" in name else ":".join(name.rpartition(".")[::2])
    module, _, attribute = where.partition(":")
    if not module or not attribute:
        return None
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            return None
        raise ConfigError(f"{name} cannot be loaded: {error}.") from None
    except AttributeError:
        return None
    return found
