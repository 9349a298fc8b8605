"""Settings of topics, brokers and groups: describe, set, delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ottla.cli.errors import JobError

if TYPE_CHECKING:
    from ottla.cli.client import Client
    from ottla.cli.confluent_admin import ConfigResource


@dataclass(frozen=True, slots=True)
class Resource:
    """What is configured. The broker named "" is the default of all brokers."""

    kind: Literal["topic", "broker", "group"]
    name: str

    def __str__(self) -> str:
        if self.kind == "broker":
            return f"Broker {self.name}" if self.name else "The default of all brokers"
        return f"{self.kind.capitalize()} '{self.name}'"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: str  # Kafka's words: DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG, …
    default: str | None  # None where the broker does not tell
    read_only: bool
    sensitive: bool

    @property
    def is_default(self) -> bool:
        return self.source == "DEFAULT_CONFIG"


def describe_configs(client: Client, resource: Resource) -> list[ConfigEntry]:
    from ottla.cli.confluent_admin import ConfigSource

    _check_broker(client, resource)
    asked = _resource(resource)
    futures = client.admin.describe_configs([asked], request_timeout=client.timeout)
    described = client.result(futures[asked], str(resource))
    default_source = ConfigSource.DEFAULT_CONFIG.value
    entries = []
    for name, entry in sorted(described.items()):
        source = ConfigSource(entry.source).name
        default = entry.value if source == "DEFAULT_CONFIG" else None
        for synonym in entry.synonyms.values():
            if synonym.source == default_source:
                default = synonym.value
        entries.append(
            ConfigEntry(
                name, entry.value, source, default, bool(entry.is_read_only), bool(entry.is_sensitive)
            )
        )
    return entries


def alter_configs(
    client: Client, resource: Resource, *, set_: Mapping[str, str] | None = None, delete: Iterable[str] = ()
) -> None:
    """Change only what is named (incremental); the broker checks names and values."""
    from ottla.cli.confluent_admin import AlterConfigOpType, ConfigEntry

    _check_broker(client, resource)
    target = _resource(resource)
    for name, value in (set_ or {}).items():
        target.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
    for name in delete:
        target.add_incremental_config(ConfigEntry(name, "", incremental_operation=AlterConfigOpType.DELETE))
    if not target.incremental_configs:
        raise JobError("There is nothing to change.")
    futures = client.admin.incremental_alter_configs([target], request_timeout=client.timeout)
    client.result(futures[target], str(resource))


def _resource(resource: Resource) -> ConfigResource:
    from ottla.cli.confluent_admin import ConfigResource, ResourceType

    kinds = {"topic": ResourceType.TOPIC, "broker": ResourceType.BROKER, "group": ResourceType.GROUP}
    return ConfigResource(kinds[resource.kind], resource.name)


def _check_broker(client: Client, resource: Resource) -> None:
    """A request to a broker that is not there would wait for it until its timeout."""
    client.ensure_reachable()
    if resource.kind == "broker" and resource.name:
        known = list(map(str, broker_ids(client)))
        if resource.name not in known:
            raise JobError(f"There is no broker {resource.name}; the cluster has {', '.join(known)}.")


def broker_ids(client: Client) -> list[int]:
    cluster = client.result(client.admin.describe_cluster(request_timeout=client.timeout), "The cluster")
    return sorted(node.id for node in cluster.nodes)
