"""Settings of topics, brokers and groups: describe, set, delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ottla.client.admin.routing import ask_controller
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, check_accepted
from ottla.protocol.messages import configs as messages

Kind = Literal["topic", "broker", "broker-logger", "client-metric", "group"]

_TYPES: dict[Kind, int] = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metric": 16, "group": 32}
_SET, _DELETE = 0, 1

# Kafka's source codes of values.
SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}


@dataclass(frozen=True, slots=True)
class Resource:
    """A configurable resource. The broker named "" is the default of all brokers."""

    kind: Kind
    name: str

    @property
    def broker(self) -> int | None:
        """The broker that owns these settings, or None."""
        own = self.kind in ("broker", "broker-logger") and self.name
        return int(self.name) if own else None

    def __str__(self) -> str:
        if self.kind == "broker":
            return f"Broker {self.name}" if self.name else "The default of all brokers"
        return f"{self.kind.capitalize()} '{self.name}'"


@dataclass(frozen=True, slots=True)
class Synonym:
    """A possible source of a value, the strongest first. The name may be the corresponding broker config."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: str  # Kafka's names: DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG, …
    default: str | None  # None if the broker does not report it
    read_only: bool
    sensitive: bool
    synonyms: list[Synonym] = field(default_factory=list)
    documentation: str = ""  # the broker's documentation, if requested

    @property
    def is_default(self) -> bool:
        return self.source == "DEFAULT_CONFIG"


def resource_names(cluster: Cluster, kind: Kind) -> list[str]:
    """Return the resources of a kind that have settings. Older brokers list only client metrics, or none."""
    _, newest = cluster.any_connection().versions.get(messages.ListConfigResourcesRequest.api_key, (0, -1))
    if newest < (0 if kind == "client-metric" else 1):
        return []
    request = messages.ListConfigResourcesRequest(resource_types=[_TYPES[kind]] if newest else [])
    answer = cluster.any_connection().request(request, messages.ListConfigResourcesResponse)
    check_accepted("The list of resources", answer)
    return [each.resource_name for each in answer.config_resources]


def describe_configs(
    cluster: Cluster, resource: Resource, *, synonyms: bool = True, documentation: bool = False
) -> list[ConfigEntry]:
    return describe_many(cluster, [resource], synonyms=synonyms, documentation=documentation)[resource]


def describe_many(
    cluster: Cluster,
    resources: Sequence[Resource],
    *,
    names: Sequence[str] | None = None,
    synonyms: bool = True,
    documentation: bool = False,
) -> dict[Resource, list[ConfigEntry]]:
    """Return the settings in the order of `resources`. Brokers answer for themselves, the rest takes one request.

    `names` selects settings; without it, all.
    """
    found: dict[Resource, list[ConfigEntry]] = {}
    for node, asked in _by_broker(cluster, resources):
        request = messages.DescribeConfigsRequest(
            resources=[
                messages.DescribeConfigsResource(
                    resource_type=_TYPES[resource.kind],
                    resource_name=resource.name,
                    configuration_keys=None if names is None else list(names),
                )
                for resource in asked
            ],
            include_synonyms=synonyms,
            include_documentation=documentation,
        )
        connection = cluster.any_connection() if node is None else cluster.node(node)
        answer = connection.request(request, messages.DescribeConfigsResponse)
        kinds = {number: kind for kind, number in _TYPES.items()}
        for result in answer.results:
            resource = Resource(kinds[result.resource_type], result.resource_name)
            check_accepted(str(resource), result)
            found[resource] = [_entry(entry) for entry in sorted(result.configs, key=lambda c: c.name)]
    return {resource: found[resource] for resource in resources}


def _by_broker(cluster: Cluster, resources: Sequence[Resource]) -> list[tuple[int | None, list[Resource]]]:
    groups: dict[int | None, list[Resource]] = {}
    for resource in resources:
        _check_broker(cluster, resource)
        groups.setdefault(resource.broker, []).append(resource)
    return list(groups.items())


def _entry(entry: Any) -> ConfigEntry:
    source = SOURCES.get(entry.config_source, "UNKNOWN")
    default = entry.value if source == "DEFAULT_CONFIG" else None
    synonyms = [
        Synonym(synonym.name, synonym.value, SOURCES.get(synonym.source, "UNKNOWN"))
        for synonym in entry.synonyms
    ]
    for synonym in synonyms:
        if synonym.source == "DEFAULT_CONFIG":
            default = synonym.value
    return ConfigEntry(
        entry.name,
        entry.value,
        source,
        default,
        entry.read_only,
        entry.is_sensitive,
        synonyms,
        entry.documentation or "",
    )


def alter_configs(
    cluster: Cluster,
    resource: Resource,
    *,
    set_: Mapping[str, str] | None = None,
    delete: Iterable[str] = (),
    validate_only: bool = False,
) -> None:
    """Change only the named settings (incremental); the broker checks names and values."""
    _check_broker(cluster, resource)
    changes = [
        messages.IncrementalConfig(name=name, config_operation=_SET, value=value)
        for name, value in (set_ or {}).items()
    ]
    changes += [
        messages.IncrementalConfig(name=name, config_operation=_DELETE, value=None) for name in delete
    ]
    if not changes:
        raise ClientError("There is nothing to change.")
    request = messages.IncrementalAlterConfigsRequest(
        resources=[
            messages.IncrementalConfigsResource(
                resource_type=_TYPES[resource.kind], resource_name=resource.name, configs=changes
            )
        ],
        validate_only=validate_only,
    )

    def check(answer: messages.IncrementalAlterConfigsResponse) -> None:
        check_accepted(str(resource), *answer.responses)

    if resource.broker is None:
        ask_controller(cluster, request, messages.IncrementalAlterConfigsResponse, check)
    else:
        check(cluster.node(resource.broker).request(request, messages.IncrementalAlterConfigsResponse))


def _check_broker(cluster: Cluster, resource: Resource) -> None:
    if resource.broker is not None and resource.broker not in cluster.nodes():
        known = ", ".join(map(str, cluster.nodes()))
        raise ClientError(f"There is no broker {resource.name}; the cluster has {known}.")
