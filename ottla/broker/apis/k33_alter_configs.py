"""AlterConfigs, key 33: replace all configs of a topic or a broker.

Behaviour
- Configs missing from the request return to their defaults; IncrementalAlterConfigs avoids that surprise.
- Each resource succeeds or fails on its own.

Version notes
- 0 first version; 1 unchanged; 2 flexible.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.requests.config_resources import MOST_CONFIGS, alter_each, refuse_configs
from ottla.cluster.topics.topic_admin import Alteration
from ottla.metadata.dynamic_configs.dynamic_broker_config import replaced
from ottla.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)


async def handle(
    broker: Broker, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    wanted = (((each.resource_type, each.resource_name), _alteration(each)) for each in request.resources)
    responses = await alter_each(
        broker, context, wanted, validate_only=request.validate_only, incremental=False
    )
    return AlterConfigsResponse(responses=responses)


def _alteration(resource: AlterConfigsResource) -> Alteration:
    if len(resource.configs) > MOST_CONFIGS:
        return refuse_configs
    configs = [(config.name, config.value) for config in resource.configs]
    return lambda before: replaced(configs)
