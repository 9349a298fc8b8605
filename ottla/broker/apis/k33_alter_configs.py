"""AlterConfigs, key 33: replace everything that is set for a topic or a broker.

Behaviour
- What the request does not name goes back to its default; IncrementalAlterConfigs is the one without that surprise.
- Each resource succeeds or fails on its own.

Version notes
- 0 the first; 1 the same; 2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.config_resources import alter, repeated
from ottla.cluster.config_changes import replaced
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.dispatch import RequestContext


async def handle(
    broker: Broker, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    times = repeated([(each.resource_type, each.resource_name) for each in request.resources])
    return AlterConfigsResponse(
        responses=[
            await _alter(
                broker,
                resource,
                times[resource.resource_type, resource.resource_name],
                request.validate_only,
            )
            for resource in request.resources
        ]
    )


async def _alter(
    broker: Broker, resource: AlterConfigsResource, times: int, validate_only: bool
) -> AlterConfigsResourceResponse:
    answer = AlterConfigsResourceResponse(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
    )
    configs = [(config.name, config.value) for config in resource.configs]
    try:
        after = replaced(configs)
        await alter(
            broker,
            (resource.resource_type, resource.resource_name),
            lambda before: after,
            times=times,
            validate_only=validate_only,
        )
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, error.message
    return answer
