"""Settings for topics that source connectors create (KIP-158). The runtime package creates the topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config.config_def import (
    NO_DEFAULT,
    ConfigDef,
    ConfigType,
    Importance,
    Validator,
    invalid,
    parse_value,
)
from ottla.connect.config.validators import all_of, not_null
from ottla.connect.data.java_regex import InvalidPattern, compile_java

GROUPS = "topic.creation.groups"
DEFAULT_GROUP = "default"
_PREFIX = "topic.creation."


def topic_groups(config: Mapping[str, str]) -> list[str]:
    """Return the groups with the default group last, or none if the config mentions no group."""
    named = [each for each in parse_value(GROUPS, config.get(GROUPS), ConfigType.LIST) or [] if each]
    if not named and not any(each.startswith(f"{_PREFIX}{DEFAULT_GROUP}.") for each in config):
        return []
    return list(dict.fromkeys([*(each for each in named if each != DEFAULT_GROUP), DEFAULT_GROUP]))


def add_topic_settings(definition: ConfigDef, config: Mapping[str, str]) -> None:
    for group in topic_groups(config):
        _define(definition, group, config)


def _define(definition: ConfigDef, group: str, config: Mapping[str, str]) -> None:
    """Define the settings of a group. Partition and replica counts default to those of the default group."""
    is_default = group == DEFAULT_GROUP

    def inherited(name: str) -> Any:
        given = config.get(f"{_PREFIX}{DEFAULT_GROUP}.{name}", "").strip()
        return NO_DEFAULT if is_default else int(given) if given.isdigit() and int(given) else -1

    patterns = all_of(not_null, _patterns)
    rows: tuple[tuple[str, ConfigType, Any, str, str, Validator], ...] = (
        ("include", ConfigType.LIST, [".*"] if is_default else NO_DEFAULT, "Inclusion Topic Pattern for",
         "Regular expressions of topics that this group is for.", patterns),
        ("exclude", ConfigType.LIST, [], "Exclusion Topic Pattern for",
         "Regular expressions of topics that this group is not for, even if they are included.", patterns),
        ("replication.factor", ConfigType.SHORT, inherited("replication.factor"), "Replication Factor for Topics in",
         "Replication factor of a new topic; -1 means the broker's default.", _REPLICAS),
        ("partitions", ConfigType.INT, inherited("partitions"), "Partition Count for Topics in",
         "Number of partitions of a new topic; -1 means the broker's default.", _PARTITIONS),
    )  # fmt: skip
    for order, (name, kind, default, title, documentation, validator) in enumerate(rows, 1):
        definition.define(
            f"{_PREFIX}{group}.{name}",
            kind,
            default,
            Importance.LOW,
            documentation,
            group=f"Topic Creation: {group}",
            order=order,
            width="LONG",
            display_name=f"{title} {group}",
            validator=validator,
        )


def _count(what: str, beyond: str) -> Validator:
    def check(name: str, value: Any) -> None:
        if value is None or (value != -1 and value < 1):
            raise invalid(name, value, f"{what} must be positive{beyond}, or -1 to use the broker's default")

    return check


_PARTITIONS = _count("Number of partitions", "")
_REPLICAS = _count("Replication factor", " and not larger than the number of brokers in the Kafka cluster")


def _patterns(name: str, value: Any) -> None:
    for each in value or ():
        try:
            compile_java(each)
        except InvalidPattern as error:
            raise invalid(name, each, f"Syntax error in regular expression: {error}") from None
