"""Effective values, their sources and synonyms, as shown by DescribeConfigs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.configs.broker_config_table import BROKER_CONFIGS, broker_config_def
from ottla.metadata.configs.config_defs import (
    ConfigDef,
    ConfigSource,
    ConfigType,
    InvalidValue,
    TypedValues,
    UpdateMode,
    Value,
    format_value,
    parse_value,
)
from ottla.metadata.configs.group_configs import (
    CLIENT_METRICS_CONFIGS,
    GROUP_RESOURCE_CONFIGS,
    GROUP_SYNONYMS,
)
from ottla.metadata.configs.topic_configs import TOPIC_CONFIGS, TOPIC_SYNONYMS


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    name: str
    value: str | None  # None if sensitive, too
    source: ConfigSource
    type: ConfigType
    read_only: bool
    sensitive: bool
    documentation: str
    synonyms: tuple[ConfigSynonym, ...]

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


class TopicConfig(TypedValues):
    """Typed effective values of a topic: its overrides on top of the broker's defaults."""

    def __init__(self, broker: BrokerConfig, overrides: Mapping[str, str]) -> None:
        values: dict[str, Value] = {name: broker.topic_default(name) for name in TOPIC_CONFIGS}
        for name, text in overrides.items():
            if name in TOPIC_CONFIGS:
                try:
                    values[name] = parse_value(TOPIC_CONFIGS[name], text, kept=True)
                except InvalidValue:
                    continue  # written by another version; the default is the better guess
        self.values = values


def effective_group_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, ConfigEntry]:
    entries = {}
    for name, definition in GROUP_RESOURCE_CONFIGS.items():
        if name in GROUP_SYNONYMS:
            synonyms = _broker_synonyms(broker, GROUP_SYNONYMS[name], False)
        else:
            synonyms = (ConfigSynonym(name, definition.default, ConfigSource.DEFAULT_CONFIG),)
        if name in overrides:
            # Show the override as set, even if the broker now allows less.
            own = _shown(definition, overrides[name])
            synonyms = (ConfigSynonym(name, own, ConfigSource.GROUP_CONFIG), *synonyms)
        _, value, source = synonyms[0]
        entries[name] = _entry(definition, value, source, synonyms)
    return entries


def _entry(
    definition: ConfigDef, value: str | None, source: ConfigSource, synonyms: tuple[ConfigSynonym, ...]
) -> ConfigEntry:
    return ConfigEntry(
        definition.name, value, source, definition.type, False, False, definition.documentation, synonyms
    )


def client_metrics_config(subscription: Mapping[str, str]) -> dict[str, ConfigEntry]:
    entries = {}
    for name, definition in CLIENT_METRICS_CONFIGS.items():
        value, source = definition.default, ConfigSource.DEFAULT_CONFIG
        synonyms: tuple[ConfigSynonym, ...] = ()
        if name in subscription:
            value, source = _shown(definition, subscription[name]), ConfigSource.CLIENT_METRICS_CONFIG
            synonyms = (ConfigSynonym(name, value, source),)
        entries[name] = _entry(definition, value, source, synonyms)
    return entries


def _shown(definition: ConfigDef, text: str) -> str | None:
    try:
        return format_value(parse_value(definition, text, kept=True))
    except InvalidValue:
        return text  # written by another version


def effective_topic_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, ConfigEntry]:
    values = TopicConfig(broker, overrides)
    return {
        name: _topic_entry(broker, definition, format_value(values.get(name)), name in overrides)
        for name, definition in TOPIC_CONFIGS.items()
        if not definition.internal and (name in overrides or not definition.unlisted)
    }


def _topic_entry(
    broker: BrokerConfig, definition: ConfigDef, value: str | None, overridden: bool
) -> ConfigEntry:
    synonyms: tuple[ConfigSynonym, ...] = ()
    if definition.name in TOPIC_SYNONYMS:
        synonyms = _broker_synonyms(broker, TOPIC_SYNONYMS[definition.name][0].name, False)
    if overridden:
        override = ConfigSynonym(definition.name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG)
        synonyms = (override, *synonyms)
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return _entry(definition, value, source, synonyms)


def effective_broker_config(broker: BrokerConfig) -> dict[str, ConfigEntry]:
    listed = (name for name, definition in BROKER_CONFIGS.items() if not definition.unlisted)
    names = dict.fromkeys([*listed, *broker.static, *broker.dynamic_default, *broker.dynamic_broker])
    return {name: _broker_entry(broker, name, format_value(broker.values.get(name))) for name in names}


def effective_cluster_default_config(broker: BrokerConfig) -> dict[str, ConfigEntry]:
    """Return the cluster-wide dynamic configs only."""
    entries = {}
    for name, text in broker.dynamic_default.items():
        entry = _broker_entry(broker, name, text)
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        synonyms = tuple(synonym for synonym in entry.synonyms if synonym.source is source)
        entries[name] = entry._replace(source=source, synonyms=synonyms)
    return entries


def _broker_entry(broker: BrokerConfig, name: str, value: str | None) -> ConfigEntry:
    definition = broker_config_def(name)
    # An unknown setting may be the secret of a plugin.
    sensitive = definition is None or definition.sensitive
    synonyms = _broker_synonyms(broker, name, sensitive)
    if name == "advertised.listeners" and value is None and "listeners" in broker.static:
        # Kafka derives the setting from listeners, and reports it as if it were in the file.
        value = broker.static["listeners"]
        synonyms = (ConfigSynonym(name, value, ConfigSource.STATIC_BROKER_CONFIG),)
    return ConfigEntry(
        name,
        None if sensitive else value,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        definition.type if definition else ConfigType.UNKNOWN,
        definition is not None and definition.update_mode is UpdateMode.READ_ONLY,
        sensitive,
        definition.documentation if definition else "",
        synonyms,
    )


# Broker configurations for the same quantity in different units, by precedence.
_FAMILIES: Mapping[str, Sequence[str]] = {
    name: family
    for family in (
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    for name in family
} | {"log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")}


def _broker_synonyms(broker: BrokerConfig, name: str, sensitive: bool) -> tuple[ConfigSynonym, ...]:
    """Return all values set for the name and its family, by precedence.

    As in Kafka, entries before the first mention of the name itself are omitted: log.retention.ms does not appear while
    only hours are set.
    """
    found: list[ConfigSynonym] = []
    family = _FAMILIES.get(name) or _listener_family(name)
    for source, layer in (
        (ConfigSource.DYNAMIC_BROKER_CONFIG, broker.dynamic_broker),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, broker.dynamic_default),
        (ConfigSource.STATIC_BROKER_CONFIG, broker.static),
    ):
        found += [ConfigSynonym(each, layer[each], source) for each in family if each in layer]
    for each in family:
        definition = BROKER_CONFIGS.get(each)
        if definition is not None and definition.default is not None:
            found.append(ConfigSynonym(each, definition.default, ConfigSource.DEFAULT_CONFIG))
    first = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
    return tuple(synonym._replace(value=None) if sensitive else synonym for synonym in found[first:])


def _listener_family(name: str) -> Sequence[str]:
    definition = broker_config_def(name)
    return (name, definition.name) if definition is not None and definition.name != name else (name,)
