"""Creates the topics of sources by the rules of KIP-158: `topic.creation.default.*` and named groups."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.connect.config.config_def import ConfigError, ConfigType, invalid, parse_value
from ottla.connect.data.java_regex import InvalidPattern, compile_java
from ottla.connect.errors import ConnectError
from ottla.protocol.errors import ErrorCode

_log = logging.getLogger(__name__)

_PREFIX = "topic.creation."
_GROUPS = f"{_PREFIX}groups"
_DEFAULT = "default"
_REPLICATION = "replication.factor"
_PARTITIONS = "partitions"


@dataclass(frozen=True, slots=True)
class TopicGroup:
    name: str
    include: tuple[re.Pattern[str], ...]
    exclude: tuple[re.Pattern[str], ...]
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]

    def matches(self, topic: str) -> bool:
        return any(each.fullmatch(topic) for each in self.include) and not any(
            each.fullmatch(topic) for each in self.exclude
        )


class TopicCreation:
    """Without rules, the brokers may create topics on demand."""

    def __init__(self, config: Mapping[str, str], enabled: bool = True) -> None:
        self._groups = parse_groups(config) if enabled else []

    def group_of(self, topic: str) -> TopicGroup | None:
        return next((each for each in self._groups if each.matches(topic)), None)

    def ensure(self, cluster: Cluster, topic: str) -> None:
        group = self.group_of(topic)
        if group is None or topic in cluster.retrying(lambda: cluster.topics([topic]), [topic]):
            return
        try:
            create_topic(
                cluster,
                topic,
                partitions=None if group.partitions < 0 else group.partitions,
                replication_factor=None if group.replication_factor < 0 else group.replication_factor,
                configs=group.configs,
            )
            _log.info("Created topic %s by the rules of group %s", topic, group.name)
        except ClientError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise ConnectError(
                    f"Topic '{topic}' cannot be created by the rules of {_PREFIX}{group.name}: {error.message}",
                    error.code,
                ) from error


def parse_groups(config: Mapping[str, str]) -> list[TopicGroup]:
    """Return the groups in order, with the default last. Without a default there are no rules, as in Kafka."""
    required = [f"{_PREFIX}{_DEFAULT}.{setting}" for setting in (_REPLICATION, _PARTITIONS)]
    if not any(name in config for name in (*required, _GROUPS)):
        return []
    names = [each.strip() for each in config.get(_GROUPS, "").split(",") if each.strip()]
    replication, partitions = (
        _number(config, _DEFAULT, setting, None) for setting in (_REPLICATION, _PARTITIONS)
    )
    groups = [
        TopicGroup(
            name,
            _patterns(config, name, "include", required=True),
            _patterns(config, name, "exclude", required=False),
            _number(config, name, _PARTITIONS, partitions),
            _number(config, name, _REPLICATION, replication),
            _configs(config, name),
        )
        for name in names
        if name != _DEFAULT
    ]
    everything = (compile_java("(?s).*"),)
    return [
        *groups,
        TopicGroup(_DEFAULT, everything, (), partitions, replication, _configs(config, _DEFAULT)),
    ]


def _number(config: Mapping[str, str], group: str, setting: str, default: int | None) -> int:
    name = f"{_PREFIX}{group}.{setting}"
    if name not in config:
        if default is None:
            raise ConfigError(f'Missing required configuration "{name}" which has no default value.')
        return default
    found: int = parse_value(name, config[name], ConfigType.INT)
    if found == 0 or found < -1:
        what = "Replication factor" if setting == _REPLICATION else "Number of partitions"
        raise invalid(
            name,
            found,
            f"{what} must be positive and not larger than the number of brokers in the Kafka "
            "cluster, or -1 to use the broker's default"
            if setting == _REPLICATION
            else f"{what} must be positive, or -1 to use the broker's default",
        )
    return found


def _patterns(
    config: Mapping[str, str], group: str, which: str, required: bool
) -> tuple[re.Pattern[str], ...]:
    name = f"{_PREFIX}{group}.{which}"
    texts = [each.strip() for each in config.get(name, "").split(",") if each.strip()]
    if required and not texts:
        raise ConfigError(f'Missing required configuration "{name}" which has no default value.')
    try:
        return tuple(map(compile_java, texts))
    except InvalidPattern as error:
        raise invalid(
            name, config[name], f"entry must be a Java-compliant regular expression: {error}"
        ) from None


def _configs(config: Mapping[str, str], group: str) -> dict[str, str]:
    """Return the remaining settings, which are topic configs such as cleanup.policy."""
    prefix = f"{_PREFIX}{group}."
    known = {f"{prefix}{each}" for each in (_REPLICATION, _PARTITIONS, "include", "exclude")}
    return {
        name.removeprefix(prefix): value
        for name, value in config.items()
        if name.startswith(prefix) and name not in known
    }
