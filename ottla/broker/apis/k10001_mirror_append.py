"""MirrorAppend, key 10001: append batches of another cluster's log unchanged. An Ottla extension outside Kafka's
protocol.

Behaviour
- Only the link named by a mirror topic (`ottla.mirror.link`) may append; it needs CLUSTER_ACTION, or ALTER on the
  topic.
- A request carries any number of whole batches. Base offsets, timestamps, producers and leader epochs are preserved,
  and nothing is decoded. Gaps are accepted. A base offset below the log end offset is OFFSET_OUT_OF_RANGE, so a
  repeated batch is written once. A request without records only returns the log end offset.
- The response waits until every in-sync replica has the batches; min.insync.replicas applies as for acks=all.
- The source's log start offset deletes the records that the source has deleted. If it is beyond the log end offset, the
  log restarts there.
- Before a write, the partition gets a leader epoch above the batch's epoch. Consumers that move over know the source's
  epochs and would take a lower one for stale metadata. Records written after a promotion then have an epoch that the
  source never used.
- A topic that is being promoted, or has been, rejects appends with INVALID_REQUEST.
- ApiVersions lists this API only for clients that identify as ottla.

Version notes
- 0 is the first version.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from struct import Struct

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.cluster.partitions.delayed_operations import Awaited, DelayedProduce, wait_for
from ottla.cluster.partitions.partition import Partition
from ottla.metadata.cluster_image import NO_LEADER, PartitionImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.produce import (
    MirrorAppendPartition,
    MirrorAppendPartitionResult,
    MirrorAppendRequest,
    MirrorAppendResponse,
    MirrorAppendTopicResult,
)
from ottla.security.acls import ALTER_TOPIC, CLUSTER_ACTION

_BATCH_START = Struct(">qii")  # base offset, remaining length, leader epoch
_LENGTH_FROM = 12
_NO_RECORDS = memoryview(b"")

Name = tuple[str, int]


SPLIT = Split("topics.partitions", "topics.partitions")


def handle(
    broker: Broker, request: MirrorAppendRequest, context: RequestContext
) -> MirrorAppendResponse | Awaitable[MirrorAppendResponse]:
    denied = _denied(request, context)
    above = _epochs_to_raise(broker, request, denied)
    if above:
        for topic in request.topics:
            for data in topic.partitions:
                if data.records is not None:  # the receive buffer is reused in the meantime
                    data.records = memoryview(bytes(data.records))
        return _raise_and_append(broker, request, denied, above)
    waits: list[Awaited] = []
    answer = _append(broker, request, denied, waits)
    return _when_committed(answer, waits, request.timeout_ms) if waits else answer


def _denied(request: MirrorAppendRequest, context: RequestContext) -> dict[str, KafkaError]:
    if context.allows(CLUSTER_ACTION, quiet=True):
        return {}
    return {
        topic.name: denial
        for topic in request.topics
        if (denial := context.denial(ALTER_TOPIC, topic.name, len(topic.partitions))) is not None
    }


async def _raise_and_append(
    broker: Broker,
    request: MirrorAppendRequest,
    denied: Mapping[str, KafkaError],
    above: Mapping[Name, int],
) -> MirrorAppendResponse:
    def raised(state: PartitionImage) -> PartitionImage | None:
        epoch = above[state.topic, state.partition] + 1
        if state.leader == NO_LEADER or state.leader_epoch >= epoch:
            return None
        return state._replace(leader_epoch=epoch)

    await broker.member.states.change(above, raised)
    await broker.member.feed.until(
        lambda: not _epochs_to_raise(broker, request, denied), request.timeout_ms / 1000
    )
    waits: list[Awaited] = []
    answer = _append(broker, request, denied, waits)
    return await _when_committed(answer, waits, request.timeout_ms)


async def _when_committed(
    answer: MirrorAppendResponse, waits: list[Awaited], timeout_ms: int
) -> MirrorAppendResponse:
    await wait_for(DelayedProduce, waits, timeout_ms)
    return answer


def _epochs_to_raise(
    broker: Broker, request: MirrorAppendRequest, denied: Mapping[str, KafkaError]
) -> dict[Name, int]:
    """Return the highest batch epoch for each partition whose own epoch is not above it."""
    found: dict[Name, int] = {}
    for topic in request.topics:
        if topic.name in denied:
            continue
        for data in topic.partitions:
            try:
                partition = _mirror(broker, request.link, topic.name, data.index)
            except KafkaError:
                continue
            highest = _highest_epoch(data)
            if highest >= partition.leader_epoch:
                found[topic.name, data.index] = highest
    return found


def _highest_epoch(data: MirrorAppendPartition) -> int:
    records = data.records or _NO_RECORDS
    highest, at = -1, 0
    while at + _BATCH_START.size <= len(records):
        _, length, epoch = _BATCH_START.unpack_from(records, at)
        if length < 0:
            break  # the append reports the fault
        highest = max(highest, epoch)
        at += _LENGTH_FROM + length
    return highest


def _append(
    broker: Broker,
    request: MirrorAppendRequest,
    denied: Mapping[str, KafkaError],
    waits: list[Awaited],
) -> MirrorAppendResponse:
    response = MirrorAppendResponse()
    for topic in request.topics:
        results = []
        for data in topic.partitions:
            result = MirrorAppendPartitionResult(index=data.index)
            results.append(result)
            try:
                if topic.name in denied:
                    raise denied[topic.name]
                partition = broker.replicas.leader(topic.name, data.index)
                _show(partition, result)
                _mirror(broker, request.link, topic.name, data.index)
                records = data.records or _NO_RECORDS
                if _highest_epoch(data) >= partition.leader_epoch:
                    raise KafkaError(
                        ErrorCode.REQUEST_TIMED_OUT, "the partition has not got its leader epoch yet"
                    )
                if len(records):
                    partition.check_min_isr()
                partition.append_mirrored(records, data.log_start_offset)
                _show(partition, result)
                if len(records) and partition.high_watermark < result.log_end_offset:
                    waits.append(Awaited(partition, result.log_end_offset, result))
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message
        response.topics.append(MirrorAppendTopicResult(name=topic.name, partitions=results))
    return response


def _mirror(broker: Broker, link: str, topic: str, index: int) -> Partition:
    """Return the partition if this broker leads it and the link may write to it."""
    partition = broker.replicas.leader(topic, index)
    config = partition.log.config
    if not config.is_mirror:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic '{topic}' is not a mirror topic.")
    if config.ottla_mirror_link != link:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Topic '{topic}' is a mirror of link '{config.ottla_mirror_link}', not '{link}'.",
        )
    if config.ottla_mirror_promoted:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic '{topic}' is being promoted.")
    return partition


def _show(partition: Partition, result: MirrorAppendPartitionResult) -> None:
    result.log_start_offset = partition.log.log_start_offset
    result.log_end_offset = partition.log.log_end_offset
    result.high_watermark = partition.high_watermark
    result.leader_epoch = partition.leader_epoch
