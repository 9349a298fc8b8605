"""Validates a connector config: framework settings, transforms, and the settings of its class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ottla.client.errors import ClientError
from ottla.connect.api import Connector, SinkConnector
from ottla.connect.config.config_def import ConfigDef, ConfigError, ConfigKey
from ottla.connect.config.connector_config import sink_config, sink_problems, source_config
from ottla.connect.config.local_files import SETTING as DIRECTORIES
from ottla.connect.config.local_files import FileDirectories
from ottla.connect.config.providers import ConfigProviders
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.plugins import PluginKind, PluginNotFound, available, find, load_class, version_of
from ottla.connect.worker import errors
from ottla.connect.worker.validation.definitions import definition_of, groups_of, value_of
from ottla.connect.worker.validation.overrides import override_problems

Json = dict[str, Any]
Problems = dict[str, list[str]]

_CLASS = "connector.class"
_CONVERTERS = {
    "key.converter": PluginKind.CONVERTER,
    "value.converter": PluginKind.CONVERTER,
    "header.converter": PluginKind.HEADER_CONVERTER,
}
_VERSION = "connector.plugin.version"


@dataclass(frozen=True)
class ConfigInfos:
    """`name` is the connector class as written in the config."""

    name: str
    groups: list[str]
    configs: list[Json]

    @property
    def problems(self) -> list[str]:
        return [error for each in self.configs for error in each["value"]["errors"]]

    def to_json(self) -> Json:
        return {
            "name": self.name,
            "error_count": len(self.problems),
            "groups": self.groups,
            "configs": self.configs,
        }


def connector_class(config: Mapping[str, str]) -> type[Connector]:
    """Raises RequestError."""
    if not config.get(_CLASS, "").strip():
        shown = ", ".join(f"{name}={value}" for name, value in config.items())
        raise errors.bad_request(f"Connector config {{{shown}}} contains no connector type")
    try:
        return load_class(config[_CLASS])
    except PluginNotFound as error:
        raise errors.bad_request(error.message) from None
    except ClientError as error:
        raise errors.RequestError(500, error.message) from None


def validate(
    config: Mapping[str, str],
    worker: WorkerConfig,
    providers: ConfigProviders,
    *,
    from_operator: bool = False,
) -> ConfigInfos:
    """Validate a config with resolved variables, and report it as given.

    `from_operator` means that the config comes from the worker's command line and may use any local file.
    """
    connector = connector_class(config)
    unresolved = ""
    refused = {} if from_operator else providers.unlimited(config)
    try:
        resolved = dict(config) if refused else providers.resolved(config)
    except ClientError as error:
        resolved, unresolved = dict(config), error.message
    if not refused and not from_operator:
        directories = FileDirectories(worker.values[DIRECTORIES])
        refused = directories.problems(connector().local_paths(resolved))
    definition = _definition(connector, resolved, worker)
    problems = _problems(connector, definition, resolved, worker, refused)
    if unresolved:
        problems.setdefault("name", []).append(unresolved)
    configs = [_info(key, config, problems.pop(key.name, [])) for key in definition.keys.values()]
    configs += [_undefined(name, config.get(name), found) for name, found in problems.items()]
    return ConfigInfos(config[_CLASS], groups_of(definition), configs)


def refuse_invalid(infos: ConfigInfos) -> None:
    """Raises RequestError."""
    problems = infos.problems
    if problems:
        listed = "\n".join(problems)
        raise errors.bad_request(
            f"Connector configuration is invalid and contains the following {len(problems)} error(s):\n{listed}\n"
            "You can also find the above list of errors at the endpoint "
            "`/connector-plugins/{connectorType}/config/validate`"
        )


def plugin_definitions(name: str) -> list[Json]:
    """Return the settings of any plugin. For a connector these are its own settings, then the common ones."""
    for kind in PluginKind:
        try:
            found = find(name, kind).load()
            # Plugins in jars know their settings only as objects, and undeclared ones their kind.
            own = getattr(found() if isinstance(found, type) else found, "config_def", None)
        except ClientError:
            continue
        keys = dict(own.keys) if isinstance(own, ConfigDef) else {}
        if kind is PluginKind.CONNECTOR:
            common = sink_config({}) if issubclass(found, SinkConnector) else source_config({})
            keys |= {key: each for key, each in common.keys.items() if key not in keys}
        return [definition_of(each) for each in keys.values()]
    raise errors.RequestError(404, f"Unknown plugin {name}.")


def _definition(connector: type[Connector], config: Mapping[str, str], worker: WorkerConfig) -> ConfigDef:
    common = sink_config(config) if issubclass(connector, SinkConnector) else source_config(config)
    found = ConfigDef()
    for key in common.keys.values():
        found.keys[key.name] = _with_default_of_worker(key, connector, worker)
    for key in connector().config_def.keys.values():
        found.keys.setdefault(key.name, key)
    return found


def _with_default_of_worker(key: ConfigKey, connector: type[Connector], worker: WorkerConfig) -> ConfigKey:
    if key.name == _VERSION:
        version = version_of(connector)
        return replace(key, default=version, recommender=lambda name, values: [version])
    if key.name not in _CONVERTERS:
        return key
    kind = _CONVERTERS[key.name]
    return replace(
        key,
        default=worker.values[key.name],
        recommender=lambda name, values: [each.class_name for each in available([kind])],
    )


def _problems(
    connector: type[Connector],
    definition: ConfigDef,
    config: Mapping[str, str],
    worker: WorkerConfig,
    refused: Mapping[str, Sequence[str]],
) -> Problems:
    """Collect all problems, including the `refused` ones.

    The connector never sees an invalid config, because it might open files.
    """
    found: Problems = {name: list(each) for name, each in definition.errors(config).items()}

    def add(more: Mapping[str, Any]) -> None:
        for name, sentences in more.items():
            found.setdefault(name, []).extend(each for each in sentences if each not in found.get(name, []))

    add(refused)
    if issubclass(connector, SinkConnector):
        add(sink_problems(config))
    add(override_problems(config, worker.values["connector.client.config.override.policy"]))
    if not found:
        try:
            add(connector().validate(config))
        except ConfigError as error:
            add({_CLASS: [error.message]})
    return found


def _info(key: ConfigKey, config: Mapping[str, str], problems: list[str]) -> Json:
    recommended = key.recommender(key.name, config) if key.recommender is not None else []
    return {
        "definition": definition_of(key),
        "value": value_of(key, config.get(key.name), recommended, problems),
    }


def _undefined(name: str, value: str | None, problems: list[str]) -> Json:
    shown = {"name": name, "value": value, "recommended_values": [], "errors": problems, "visible": True}
    return {"definition": None, "value": shown}
