"""IncrementalAlterConfigs, key 44: set, delete, append to and subtract from single configurations.

Behaviour
- Append and subtract apply to lists. Without a current value they start from Kafka's default, as Kafka does.
- Each resource succeeds or fails on its own, with all its changes.
- For brokers only Kafka's dynamic configs can be changed; others are rejected with INVALID_REQUEST.
- Logger levels of this broker take effect immediately and last until it stops.

Version notes
- 0 first version; 1 flexible.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.loggers import changed_levels
from ottla.broker.network.request_context import RequestContext
from ottla.broker.requests.config_resources import MOST_CONFIGS, ResourceType, alter_each, refuse_configs
from ottla.cluster.topics.topic_admin import Alteration
from ottla.metadata.configs.broker_config_table import broker_config_def
from ottla.metadata.configs.topic_configs import TOPIC_CONFIGS
from ottla.metadata.dynamic_configs.dynamic_broker_config import ConfigChange, changed
from ottla.protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalConfigsResource,
)


async def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    wanted = (((each.resource_type, each.resource_name), _alteration(each)) for each in request.resources)
    responses = await alter_each(
        broker, context, wanted, validate_only=request.validate_only, incremental=True
    )
    return IncrementalAlterConfigsResponse(responses=responses)


def _alteration(resource: IncrementalConfigsResource) -> Alteration:
    if len(resource.configs) > MOST_CONFIGS:
        return refuse_configs
    changes = [ConfigChange(each.name, each.config_operation, each.value) for each in resource.configs]
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        return lambda before: changed_levels(before, changes)
    definition_of = TOPIC_CONFIGS.get if resource.resource_type == ResourceType.TOPIC else broker_config_def
    return lambda before: changed(before, changes, definition_of)
