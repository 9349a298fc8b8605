"""OffsetFetch, key 9: how far a group had come.

Behaviour
- Every partition that is asked for is answered, with offset -1 where nothing is committed; null topics ask
  for all that is committed.
- With `require_stable` a partition whose offset waits for the end of a transaction is UNSTABLE_OFFSET_COMMIT.

Version notes
- 1 has no place for an error of the whole group, it goes to every partition; 5 leader epochs; 6 flexible;
  8 several groups; 9 member id and epoch, which consumer groups check and classic ones do not look at;
  10 topics by id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.coordinator.groups.offsets.committed_offsets import CommittedOffset
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.network.dispatch import RequestContext

_NOTHING = CommittedOffset(-1)


def handle(broker: Broker, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    if context.version < 8:
        return _one_group(broker, request, context.version)
    response = OffsetFetchResponse(
        groups=[_group(broker, group, context.version) for group in request.groups]
    )
    if request.require_stable:
        for group in response.groups:
            _mark_unstable(broker, group)
    return response


def _mark_unstable(broker: Broker, group: OffsetFetchResponseGroup) -> None:
    if group.error_code:
        return
    for topic in group.topics:
        known = broker.image.topics_by_id.get(topic.topic_id)
        name = topic.name or (known.name if known else "")
        for partition in topic.partitions:
            if broker.groups.offsets.is_pending(group.group_id, name, partition.partition_index):
                partition.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
                partition.committed_offset = partition.committed_leader_epoch = -1
                partition.metadata = ""


def _one_group(broker: Broker, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
    asked = None if request.topics is None else [(t.name, t.partition_indexes) for t in request.topics]
    try:
        found = broker.groups.offsets.fetch(request.group_id, asked)
    except KafkaError as error:
        if version >= 2:
            return OffsetFetchResponse(error_code=error.code)
        nothing = [(name, [(index, None) for index in indexes]) for name, indexes in asked or ()]
        return OffsetFetchResponse(topics=_old_topics(nothing, error.code))
    response = OffsetFetchResponse(topics=_old_topics(found, ErrorCode.NONE))
    if request.require_stable:
        for topic in response.topics:
            for partition in topic.partitions:
                if broker.groups.offsets.is_pending(request.group_id, topic.name, partition.partition_index):
                    partition.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
                    partition.committed_offset = partition.committed_leader_epoch = -1
                    partition.metadata = ""
    return response


def _old_topics(
    found: Sequence[tuple[str, Sequence[tuple[int, CommittedOffset | None]]]], error: ErrorCode
) -> list[OffsetFetchResponseTopic]:
    topics = []
    for name, partitions in found:
        topic = OffsetFetchResponseTopic(name=name)
        topics.append(topic)
        for index, committed in partitions:
            offset = committed or _NOTHING
            topic.partitions.append(
                OffsetFetchResponsePartition(
                    partition_index=index,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    metadata=offset.metadata,
                    error_code=error,
                )
            )
    return topics


def _group(broker: Broker, group: OffsetFetchRequestGroup, version: int) -> OffsetFetchResponseGroup:
    response = OffsetFetchResponseGroup(group_id=group.group_id)
    try:
        if group.topics is None:
            for name, partitions in broker.groups.offsets.fetch(
                group.group_id, None, member_id=group.member_id, member_epoch=group.member_epoch
            ):
                topic = broker.image.topics.get(name)
                if version < 10:
                    response.topics.append(_topic(name, b"", partitions))
                elif topic is not None:
                    response.topics.append(_topic("", topic.topic_id, partitions))
            return response
        names = [_name_of(broker, topic, version) for topic in group.topics]
        known = [(n, t.partition_indexes) for n, t in zip(names, group.topics, strict=True) if n is not None]
        found = iter(
            broker.groups.offsets.fetch(
                group.group_id, known, member_id=group.member_id, member_epoch=group.member_epoch
            )
        )
    except KafkaError as error:
        response.error_code = error.code
        return response
    for known_name, asked in zip(names, group.topics, strict=True):
        if known_name is None:
            response.topics.append(_unknown_topic(asked))
        else:
            response.topics.append(_topic(asked.name, asked.topic_id, next(found)[1]))
    return response


def _name_of(broker: Broker, asked: OffsetFetchRequestTopics, version: int) -> str | None:
    if version < 10:
        return asked.name
    topic = broker.image.topics_by_id.get(asked.topic_id)
    return None if topic is None else topic.name


def _topic(
    name: str, topic_id: bytes, partitions: Sequence[tuple[int, CommittedOffset | None]]
) -> OffsetFetchResponseTopics:
    topic = OffsetFetchResponseTopics(name=name)
    if topic_id:
        topic.topic_id = topic_id
    for index, committed in partitions:
        offset = committed or _NOTHING
        topic.partitions.append(
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                metadata=offset.metadata,
            )
        )
    return topic


def _unknown_topic(asked: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    topic = _topic("", asked.topic_id, [(index, None) for index in asked.partition_indexes])
    for partition in topic.partitions:
        partition.error_code = ErrorCode.UNKNOWN_TOPIC_ID
    return topic
