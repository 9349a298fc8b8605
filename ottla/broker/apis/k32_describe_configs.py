"""DescribeConfigs, key 32: return effective values, their sources and synonyms.

Behaviour
- Covers topics, groups, this broker, and with an empty broker name the defaults for all brokers. Null or no keys return
  all configs; unknown keys are omitted.
- Sensitive values are null. Loggers have Python's logger names.
- A group or metrics subscription without settings returns only defaults, whether it exists or not.

Version notes
- 1 synonyms and sources; 2 unchanged; 3 types and documentation; 4 flexible.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.broker import Broker
from ottla.broker.loggers import logger_configs
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work
from ottla.broker.requests.config_resources import ResourceType, parse_broker_id, require_configs
from ottla.metadata.dynamic_configs.effective_config import (
    ConfigEntry,
    client_metrics_config,
    effective_broker_config,
    effective_cluster_default_config,
    effective_group_config,
    effective_topic_config,
)
from ottla.metadata.nodes import validate_topic_name
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

# All configs of 25,000 topics.
_MOST_CONFIGS = 1_000_000
_TOO_MANY = f"The response would hold more than {_MOST_CONFIGS} configs. Ask for fewer resources at a time."


def handle(
    broker: Broker, request: DescribeConfigsRequest, context: RequestContext
) -> Work[DescribeConfigsResponse]:
    response = DescribeConfigsResponse()
    entries = described = 0  # entries since other requests were served, and configs in the response
    for resource in request.resources:
        result = _describe(broker, context, request, resource)
        described += len(result.configs)
        if described > _MOST_CONFIGS:
            result.configs = []
            result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, _TOO_MANY
        response.results.append(result)
        entries += 1 + len(result.configs)
        if entries > SLICE:
            entries = 0
            yield None
    return response


def _describe(
    broker: Broker,
    context: RequestContext,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        require_configs(context, resource.resource_type, resource.resource_name, to_alter=False)
        entries = _entries(broker, resource.resource_type, resource.resource_name)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message or ""
        return result
    keys = frozenset(resource.configuration_keys or ())
    result.configs = [
        _result(entry, request.include_synonyms, request.include_documentation)
        for entry in entries.values()
        if not keys or entry.name in keys
    ]
    return result


def _entries(broker: Broker, kind: int, name: str) -> Mapping[str, ConfigEntry]:
    match kind:
        case ResourceType.TOPIC:
            validate_topic_name(name)
            topic = broker.image.topics.get(name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return effective_topic_config(broker.config, topic.configs)
        case ResourceType.BROKER:
            if not name:
                return effective_cluster_default_config(broker.config)
            if parse_broker_id(name) != broker.node_id:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}",
                )
            return effective_broker_config(broker.config)
        case ResourceType.BROKER_LOGGER:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            if parse_broker_id(name) != broker.node_id:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Unexpected broker id, expected {broker.node_id} but received {name}",
                )
            return logger_configs()
        case ResourceType.GROUP:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return effective_group_config(broker.config, broker.image.group_configs.get(name, {}))
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
                )
            return client_metrics_config(broker.image.client_metrics.get(name, {}))
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def _result(
    entry: ConfigEntry, include_synonyms: bool, include_documentation: bool
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in (entry.synonyms if include_synonyms else ())
        ],
        config_type=entry.type,
        documentation=entry.documentation if include_documentation else None,
    )
