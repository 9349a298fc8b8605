"""FindCoordinator, key 10: find the broker that coordinates a group or a transactional id.

Behaviour
- The coordinator of a group leads its partition of `__consumer_offsets`. For a transactional id the topic is
  `__transaction_state`, for a share key (group, topic id and partition) `__share_group_state`. The first request
  creates the topic.

Version notes
- 1 key types and error messages; 3 flexible; 4 several keys; 6 share groups.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.coordinator.runtime import partition_for
from ottla.metadata.nodes import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.cluster import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.security.acls import CLUSTER_ACTION, DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID

_SHARE = 2
_TOPICS = {0: GROUP_METADATA_TOPIC, 1: TRANSACTION_STATE_TOPIC, _SHARE: SHARE_GROUP_STATE_TOPIC}
_RIGHTS = {0: DESCRIBE_GROUP, 1: DESCRIBE_TRANSACTIONAL_ID}


SPLIT = Split("coordinator_keys", "coordinators")


async def handle(
    broker: Broker, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    if request.key_type == _SHARE:
        context.require(CLUSTER_ACTION)
    keys = request.coordinator_keys if context.version >= 4 else [request.key]
    found = [await _find(broker, request.key_type, key, context) for key in keys]
    if context.version >= 4:
        return FindCoordinatorResponse(coordinators=found)
    (one,) = found
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message or "NONE",  # as in Kafka; some clients display it
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _find(broker: Broker, key_type: int, key: str, context: RequestContext) -> Coordinator:
    try:
        name = _TOPICS.get(key_type)
        if name is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"This broker does not coordinate keys of type {key_type}."
            )
        if key_type in _RIGHTS:
            context.require(_RIGHTS[key_type], key)
        if key_type == _SHARE:
            if len(key.split(":")) < 3:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "A share key is GROUP:TOPIC_ID:PARTITION.")
            await broker.sharing.ensure_topic()
        else:
            await broker.ensure_internal_topic(name)
        topic = broker.image.topics[name]
        leader = broker.leader_of(topic.partitions[partition_for(key, len(topic.partitions))])
        node = broker.node(leader, context.listener)
        if node is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    except KafkaError as error:
        return Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message
        )
    return Coordinator(key=key, node_id=node.id, host=node.host, port=node.port, error_message="")
