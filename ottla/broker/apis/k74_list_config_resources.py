"""ListConfigResources, key 74: list the resources for DescribeConfigs.

Behaviour
- The list has all topics, all brokers and their loggers, and the groups and metrics subscriptions with settings.

Version notes
- 0 client metrics only, flexible; 1 all or selected types; an unknown type is answered with UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work, distinct
from ottla.broker.requests.config_resources import ResourceType
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.configs import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ottla.security.acls import DESCRIBE_CONFIGS_CLUSTER

_TYPES_SINCE = 1


def handle(
    broker: Broker, request: ListConfigResourcesRequest, context: RequestContext
) -> Work[ListConfigResourcesResponse]:
    context.require(DESCRIBE_CONFIGS_CLUSTER)
    asked = yield from distinct(request.resource_types)
    try:
        wanted = {ResourceType(each) for each in asked} or set(ResourceType)
        if context.version < _TYPES_SINCE:
            wanted = {ResourceType.CLIENT_METRICS}
    except ValueError:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    brokers = [str(broker_id) for broker_id in broker.image.brokers]
    names = {
        ResourceType.TOPIC: list(broker.image.topics),
        ResourceType.BROKER: brokers,
        ResourceType.BROKER_LOGGER: brokers,
        ResourceType.GROUP: list(broker.image.group_configs),
        ResourceType.CLIENT_METRICS: list(broker.image.client_metrics),
    }
    response = ListConfigResourcesResponse()
    for kind in sorted(wanted):
        for name in names[kind]:
            response.config_resources.append(ConfigResource(resource_name=name, resource_type=kind))
            if not len(response.config_resources) % SLICE:
                yield None
    return response
