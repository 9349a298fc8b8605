"""DescribeProducers, key 61: list the active producers of partitions.

Behaviour
- Every replica answers from its own state: tools ask one broker for all its partitions.
- An open transaction has a first offset. `kafka-transactions find-hanging` looks for transactions that stay open.

Version notes
- 0 is the only version, flexible.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.metadata.nodes import validate_topic_name
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.security.acls import READ_TOPIC

SPLIT = Split("topics.partition_indexes", "topics.partitions")


def handle(
    broker: Broker, request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    _describe(broker, context, topic.name, index) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _describe(broker: Broker, context: RequestContext, topic: str, index: int) -> PartitionResponse:
    try:
        validate_topic_name(topic)
        context.require(READ_TOPIC, topic)
        partition = broker.replicas.topic(topic).get(index) or broker.replicas.leader(topic, index)
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(**producer._asdict()) for producer in partition.log.describe_producers()
        ],
    )
