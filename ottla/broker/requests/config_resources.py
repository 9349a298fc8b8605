"""Config resources by the names of DescribeConfigs, and the alteration of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from ottla.broker import loggers
from ottla.cluster.topics.topic_admin import Alteration
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.configs import AlterConfigsResourceResponse
from ottla.security.acls import (
    ALTER_CONFIGS_CLUSTER,
    ALTER_CONFIGS_GROUP,
    ALTER_CONFIGS_TOPIC,
    DESCRIBE_CONFIGS_CLUSTER,
    DESCRIBE_CONFIGS_GROUP,
    DESCRIBE_CONFIGS_TOPIC,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.network.request_context import RequestContext


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


Resource = tuple[int, str]  # type and name

# Limit per resource in one request, more than exist.
MOST_CONFIGS = 10_000


def refuse_configs(before: Mapping[str, str]) -> dict[str, str]:
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"A resource has no more than {MOST_CONFIGS} configs.")


def require_configs(context: RequestContext, kind: int, name: str, *, to_alter: bool) -> None:
    """Raise KafkaError if the client may not describe or alter the configs of a resource."""
    match kind:
        case ResourceType.TOPIC:
            context.require(ALTER_CONFIGS_TOPIC if to_alter else DESCRIBE_CONFIGS_TOPIC, name)
        case ResourceType.GROUP:
            context.require(ALTER_CONFIGS_GROUP if to_alter else DESCRIBE_CONFIGS_GROUP, name)
        case _:
            context.require(ALTER_CONFIGS_CLUSTER if to_alter else DESCRIBE_CONFIGS_CLUSTER)


async def alter_each(
    broker: Broker,
    context: RequestContext,
    wanted: Iterable[tuple[Resource, Alteration]],
    *,
    validate_only: bool,
    incremental: bool,
) -> list[AlterConfigsResourceResponse]:
    """Alter each resource separately; one rejection does not affect the others.

    Loggers can only be altered incrementally: a full replacement would reset all loggers not named.
    """
    alterations = []
    times: Counter[Resource] = Counter()
    async for resource, alteration in context.paced(wanted):
        alterations.append((resource, alteration))
        times[resource] += 1
    results = []
    async for resource, alteration in context.paced(alterations):
        kind, name = resource
        result = AlterConfigsResourceResponse(resource_type=kind, resource_name=name, error_message=None)
        results.append(result)
        try:
            if times[resource] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            require_configs(context, kind, name, to_alter=True)
            if kind == ResourceType.BROKER_LOGGER and incremental:
                _alter_loggers(broker, name, alteration, validate_only)
            else:
                await _alter(broker, resource, alteration, validate_only)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
    return results


async def _alter(broker: Broker, resource: Resource, alteration: Alteration, validate_only: bool) -> None:
    """Alter one resource. Raises KafkaError with Kafka's message."""
    kind, name = resource
    match kind:
        case ResourceType.TOPIC:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
            await broker.topic_admin.alter_topic_configs(name, alteration, validate_only=validate_only)
        case ResourceType.BROKER:
            broker_id = parse_broker_id(name, "Node") if name else None
            await broker.topic_admin.alter_broker_configs(broker_id, alteration, validate_only=validate_only)
        case ResourceType.GROUP:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
            await broker.topic_admin.alter_group_configs(name, alteration, validate_only=validate_only)
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
            await broker.topic_admin.alter_client_metrics(name, alteration, validate_only=validate_only)
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def _alter_loggers(broker: Broker, name: str, alteration: Alteration, validate_only: bool) -> None:
    if parse_broker_id(name, "Node") != broker.node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {broker.node_id}, but received {name}"
        )
    levels = alteration(loggers.own_levels())
    if not validate_only:
        loggers.set_levels(levels)
        if broker.authorizer is not None:
            broker.authorizer.version += 1  # the audit log may have more to report now


def parse_broker_id(name: str, what: str = "Broker") -> int:
    try:
        return int(name)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{what} id must be an integer, but it is: {name}"
        ) from None
