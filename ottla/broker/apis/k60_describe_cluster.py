"""DescribeCluster, key 60: list the brokers and the controller.

Behaviour
- Broker addresses are the advertised ones of the listener that received the request. No broker is ever fenced.
- There are no separate controller endpoints: endpoint type 2 is answered with MISMATCHED_ENDPOINT_TYPE.

Version notes
- 0 first version, flexible; 1 endpoint type; 2 fenced brokers.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.security.acls import DESCRIBE_CLUSTER, ResourceType

_BROKERS, _CONTROLLERS = 1, 2


def handle(
    broker: Broker, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    if request.endpoint_type == _CONTROLLERS:
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != _BROKERS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}"
        )
    response = DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.image.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in broker.nodes(context.listener)
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = 0
        if context.allows(DESCRIBE_CLUSTER):
            response.cluster_authorized_operations = context.operations(ResourceType.CLUSTER)
    return response
