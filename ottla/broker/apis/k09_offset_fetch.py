"""OffsetFetch, key 9: fetch committed offsets of a group.

Behaviour
- The response includes every requested partition, with offset -1 if nothing is committed. Null topics request all
  committed offsets.
- With `require_stable`, a partition with a pending transactional offset returns UNSTABLE_OFFSET_COMMIT.

Version notes
- 1 has no group-level error field, so the error goes to every partition; 5 leader epochs; 6 flexible; 8 several groups;
  9 member id and epoch, checked by consumer groups and ignored by classic ones; 10 topics by id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeVar

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work
from ottla.broker.network.split import Split
from ottla.coordinator.groups.base.committed_offsets import CommittedOffset
from ottla.protocol.codec import ZERO_UUID
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
from ottla.security.acls import DESCRIBE_GROUP, DESCRIBE_TOPIC

_NOTHING = CommittedOffset(-1)

Partition = OffsetFetchResponsePartition | OffsetFetchResponsePartitions
P = TypeVar("P", OffsetFetchResponsePartition, OffsetFetchResponsePartitions)


SPLIT = Split(
    "groups.topics.partition_indexes",
    "groups.topics.partitions",
    or_else=Split("topics.partition_indexes", "topics.partitions"),  # before version 8
)


def handle(broker: Broker, request: OffsetFetchRequest, context: RequestContext) -> Work[OffsetFetchResponse]:
    if context.version < 8:
        return (yield from _one_group(broker, request, context))
    response = OffsetFetchResponse()
    for asked in request.groups:
        group = yield from _group(broker, asked, context)
        response.groups.append(group)
        if request.require_stable and not group.error_code:
            for topic in group.topics:
                known = broker.image.topics_by_id.get(topic.topic_id)
                name = topic.name or (known.name if known else "")
                _mark_unstable(broker, group.group_id, name, topic.partitions)
                yield None
        if not len(response.groups) % SLICE:
            yield None
    return response


def _mark_unstable(broker: Broker, group_id: str, topic: str, partitions: Sequence[Partition]) -> None:
    for partition in partitions:
        if broker.groups.offsets.is_pending(group_id, topic, partition.partition_index):
            partition.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
            partition.committed_offset = partition.committed_leader_epoch = -1
            partition.metadata = ""


def _one_group(
    broker: Broker, request: OffsetFetchRequest, context: RequestContext
) -> Work[OffsetFetchResponse]:
    asked = None if request.topics is None else [(t.name, t.partition_indexes) for t in request.topics]
    error = ErrorCode.NONE
    denied: dict[str, KafkaError] = {}
    try:
        context.require(DESCRIBE_GROUP, request.group_id)
        found = broker.groups.offsets.fetch(request.group_id, asked)
        denied = _denied(context, [name for name, _ in found])
        if asked is None:
            found = [(name, partitions) for name, partitions in found if name not in denied]
    except KafkaError as failure:
        if context.version >= 2:
            return OffsetFetchResponse(error_code=failure.code)
        error = failure.code
        found = [(name, [(index, None) for index in indexes]) for name, indexes in asked or ()]
    topics = []
    entries = 0  # since other requests were served
    for name, partitions in found:
        topic = OffsetFetchResponseTopic(
            name=name,
            partitions=_partitions(
                OffsetFetchResponsePartition,
                _hidden(partitions) if name in denied else partitions,
                denied[name].code if name in denied else error,
            ),
        )
        topics.append(topic)
        if request.require_stable and name not in denied:
            _mark_unstable(broker, request.group_id, name, topic.partitions)
        entries += 1 + len(partitions)
        if entries > SLICE:
            entries = 0
            yield None
    return OffsetFetchResponse(topics=topics)


def _denied(context: RequestContext, names: Iterable[str | None]) -> dict[str, KafkaError]:
    denials = {name: context.denial(DESCRIBE_TOPIC, name) for name in names if name is not None}
    return {name: denial for name, denial in denials.items() if denial is not None}


def _hidden(partitions: Sequence[tuple[int, CommittedOffset | None]]) -> list[tuple[int, None]]:
    return [(index, None) for index, _ in partitions]


def _group(
    broker: Broker, group: OffsetFetchRequestGroup, context: RequestContext
) -> Work[OffsetFetchResponseGroup]:
    version = context.version
    response = OffsetFetchResponseGroup(group_id=group.group_id)
    fetch = partial(
        broker.groups.offsets.fetch,
        group.group_id,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
    )
    try:
        context.require(DESCRIBE_GROUP, group.group_id)
        if group.topics is None:
            everything = fetch(None)
            entries = 0  # since other requests were served
            denied = _denied(context, [name for name, _ in everything])
            for name, partitions in everything:
                if name in denied:
                    continue
                entries += 1 + len(partitions)
                if entries > SLICE:
                    entries = 0
                    yield None
                topic = broker.image.topics.get(name)
                if version < 10:
                    response.topics.append(_topic(name, ZERO_UUID, partitions))
                elif topic is not None:
                    response.topics.append(_topic("", topic.topic_id, partitions))
            return response
        names = [_name_of(broker, topic, version) for topic in group.topics]
        denied = _denied(context, names)
        known = [(n, t.partition_indexes) for n, t in zip(names, group.topics, strict=True) if n is not None]
        found = iter(fetch(known))
    except KafkaError as error:
        response.error_code = error.code
        return response
    for known_name, asked in zip(names, group.topics, strict=True):
        nothing = [(index, None) for index in asked.partition_indexes]
        if known_name is not None:
            partitions = next(found)[1]
            if known_name in denied:
                refused = denied[known_name].code
                response.topics.append(_topic(asked.name, asked.topic_id, nothing, refused))
            else:
                response.topics.append(_topic(asked.name, asked.topic_id, partitions))
            continue
        response.topics.append(_topic("", asked.topic_id, nothing, ErrorCode.UNKNOWN_TOPIC_ID))
    return response


def _name_of(broker: Broker, asked: OffsetFetchRequestTopics, version: int) -> str | None:
    if version < 10:
        return asked.name
    topic = broker.image.topics_by_id.get(asked.topic_id)
    return None if topic is None else topic.name


def _topic(
    name: str,
    topic_id: bytes,
    found: Sequence[tuple[int, CommittedOffset | None]],
    error: ErrorCode = ErrorCode.NONE,
) -> OffsetFetchResponseTopics:
    partitions = _partitions(OffsetFetchResponsePartitions, found, error)
    return OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions)


def _partitions(
    kind: type[P], found: Sequence[tuple[int, CommittedOffset | None]], error: ErrorCode
) -> list[P]:
    partitions = []
    for index, committed in found:
        offset = committed or _NOTHING
        partitions.append(
            kind(
                partition_index=index,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                metadata=offset.metadata,
                error_code=error,
            )
        )
    return partitions
