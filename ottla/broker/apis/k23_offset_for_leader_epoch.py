"""OffsetForLeaderEpoch, key 23: return the end offset of a leader epoch, with which clients detect truncation.

Behaviour
- The response has the largest epoch not above the requested one, and the offset after its last record; -1 and -1 if
  unknown.

Version notes
- 2 first supported version, with the current leader epoch; 3 replica id; 4 flexible.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.fetch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResult,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ottla.security.acls import CLUSTER_ACTION, DESCRIBE_TOPIC

SPLIT = Split("topics.partitions", "topics.partitions")


def handle(
    broker: Broker, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    is_broker = context.allows(CLUSTER_ACTION, quiet=True)
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _look_up(broker, topic.topic, partition, denied) for partition in topic.partitions
                ],
            )
            for topic in request.topics
            for denied in (
                None if is_broker else context.denial(DESCRIBE_TOPIC, topic.topic, len(topic.partitions)),
            )
        ]
    )


def _look_up(
    broker: Broker, topic: str, asked: OffsetForLeaderPartition, denied: KafkaError | None
) -> OffsetForLeaderEpochResult:
    answer = OffsetForLeaderEpochResult(partition=asked.partition)
    try:
        if denied is not None:
            raise denied
        partition = broker.replicas.leader(topic, asked.partition)
        partition.check_epoch(asked.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = partition.log.epoch_end_offset(asked.leader_epoch)
    except KafkaError as error:
        answer.error_code = error.code
    return answer
