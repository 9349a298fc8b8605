"""Metadata, key 3: brokers, topics and partition leaders.

Behaviour
- Broker addresses are the advertised ones of the listener that received the request.
- An unknown topic is created if the client and auto.create.topics.enable allow it. As in Kafka, the first response is
  LEADER_NOT_AVAILABLE and the client retries. A client over its controller_mutation_rate gets the error, but no topic.
- Topics requested by id are never created. A topic requested twice is described once.

Version notes
- 0 an empty list means all topics; 1 null means all, controller id; 4 the client decides on auto-creation;
  7 leader epochs; 8 authorized operations; 9 flexible; 10 topic ids; 12 null names; 13 top-level error code.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work
from ottla.cluster.topics.topic_admin import Charge
from ottla.metadata.cluster_image import TopicImage
from ottla.metadata.nodes import INTERNAL_TOPICS, validate_topic_name
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.internal_topics import is_internal
from ottla.protocol.messages.cluster import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.security.acls import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CLUSTER, DESCRIBE_TOPIC, ResourceType

_NOT_ASKED = -(2**31)
_MOST_CREATED = 1000  # topics created per request; the client asks again for the others


def handle(broker: Broker, request: MetadataRequest, context: RequestContext) -> Work[MetadataResponse]:
    image = broker.image
    with_operations = request.include_topic_authorized_operations
    topics: list[MetadataResponseTopic] = []
    entries = 0  # since other requests were served
    if request.topics is None or (context.version == 0 and not request.topics):
        for topic in list(image.topics.values()):
            if context.allows(DESCRIBE_TOPIC, topic.name, quiet=True):
                topics.append(_describe(broker, context, topic, with_operations))
            entries += 1 + len(topic.partitions)
            if entries > SLICE:
                entries = 0
                yield None
    else:
        may_create = request.allow_auto_topic_creation and broker.auto_create_topics
        charge = broker.quotas.mutations(context, strict=True).charge
        seen: set[str | bytes | None] = set()  # names and ids
        created = 0
        for asked in request.topics:
            key = asked.name if asked.topic_id == ZERO_UUID else asked.topic_id
            if key not in seen:
                seen.add(key)
                found = _look_up(broker, context, asked, may_create, with_operations, charge)
                topics.append(found)
                entries += len(found.partitions)
                if found.error_code == ErrorCode.LEADER_NOT_AVAILABLE:
                    created += 1
                    may_create = may_create and created < _MOST_CREATED
            entries += 1
            if entries > SLICE:
                entries = 0
                yield None
    cluster_operations = _NOT_ASKED
    if request.include_cluster_authorized_operations:
        cluster_operations = 0
        if context.allows(DESCRIBE_CLUSTER):
            cluster_operations = context.operations(ResourceType.CLUSTER)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in broker.nodes(context.listener)
        ],
        cluster_id=broker.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=cluster_operations,
    )


def _look_up(
    broker: Broker,
    context: RequestContext,
    asked: MetadataRequestTopic,
    may_create: bool,
    with_operations: bool,
    charge: Charge,
) -> MetadataResponseTopic:
    if asked.topic_id != ZERO_UUID:
        topic = broker.image.topics_by_id.get(asked.topic_id)
        if topic is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id
            )
        denied = context.denial(DESCRIBE_TOPIC, topic.name)
        if denied is not None:
            return MetadataResponseTopic(error_code=denied.code, name=None, topic_id=asked.topic_id)
        return _describe(broker, context, topic, with_operations)
    name = asked.name or ""
    denied = context.denial(DESCRIBE_TOPIC, name)
    if denied is not None:
        return MetadataResponseTopic(error_code=denied.code, name=name)
    topic = broker.image.topics.get(name)
    if topic is not None:
        return _describe(broker, context, topic, with_operations)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        if may_create or name in INTERNAL_TOPICS:
            if not context.allows(CREATE_CLUSTER, quiet=True):
                context.require(CREATE_TOPIC, name)
            error = broker.auto_create(name, charge)
        else:
            validate_topic_name(name)
    except KafkaError as refused:
        error = refused.code
    return MetadataResponseTopic(
        error_code=error,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=_operations(context, name, with_operations),
    )


def _operations(context: RequestContext, name: str, with_operations: bool) -> int:
    return context.operations(ResourceType.TOPIC, name) if with_operations else _NOT_ASKED


def _describe(
    broker: Broker, context: RequestContext, topic: TopicImage, with_operations: bool
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(
                error_code=ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
                offline_replicas=broker.offline_replicas(partition),
            )
            for index, partition in topic.partitions.items()
            for leader in (broker.leader_of(partition),)
        ],
        topic_authorized_operations=_operations(context, topic.name, with_operations),
    )
