"""StreamsGroupTopologyDescriptionUpdate, key 93: describe the topology of a streams application (KIP-1331).

Behaviour
- A member sends this after a heartbeat response with `topology_description_required`. StreamsGroupDescribe shows the
  description while the group has the same topology epoch.
- The broker keeps descriptions only if `group.streams.topology.description.plugin.class` names Kafka's in-memory
  plugin. Otherwise it never asks, and this request is UNSUPPORTED_VERSION.
- A group that does not exist is GROUP_ID_NOT_FOUND, a stranger UNKNOWN_MEMBER_ID, another epoch INVALID_REQUEST.

Version notes
- 0 is the only version.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.streams_groups import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    TopologyDescription,
)
from ottla.security.acls import READ_GROUP

_MOST_ENTRIES = 5000


def handle(
    broker: Broker, request: StreamsGroupTopologyDescriptionUpdateRequest, context: RequestContext
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    context.require(READ_GROUP, request.group_id)
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    if not request.member_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    if not keeps_descriptions(broker):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The broker has no streams group topology description plugin configured.",
        )
    if _size(request.topology_description) > _MOST_ENTRIES:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The topology description cannot have more than {_MOST_ENTRIES} entries.",
        )
    broker.groups.streams.describe_topology(
        request.group_id, request.member_id, request.topology_epoch, request.topology_description
    )
    return StreamsGroupTopologyDescriptionUpdateResponse()


def keeps_descriptions(broker: Broker) -> bool:
    return broker.config.get("group.streams.topology.description.plugin.class") is not None


def _size(description: TopologyDescription) -> int:
    nodes = [node for each in description.subtopologies for node in each.nodes]
    nodes += [node for each in description.global_stores for node in (each.source, each.processor)]
    return len(nodes) + sum(
        len(node.source_topics) + len(node.stores) + len(node.successors) for node in nodes
    )
