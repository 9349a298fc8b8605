"""ListOffsets, key 2: offsets by time, and the ends of the log.

Behaviour
- Timestamp -1 is the end (the last stable offset for read_committed), -2 the log start offset, -3 the record with the
  largest timestamp in the local log. For tiered storage (KIP-405), -4 is the start of the local log, -5 the last offset
  in remote storage, -6 the first offset that is not there yet. Without tiered storage -5 and -6 return nothing.
- A follower gets the log end offset instead. A new leader that does not know its high watermark yet could send a client
  back in time and returns OFFSET_NOT_AVAILABLE (KIP-207).
- Any other timestamp finds the first record at or after it. The lookup reads the log and runs in a thread.

Version notes
- 2 isolation level; 4 leader epochs; 6 flexible; 7 largest timestamp; 8 earliest local; 9 last tiered; 10 timeout; 11
  earliest pending upload.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.remote_log.remote_reads import remote_offset_for_timestamp
from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.security.acls import DESCRIBE_TOPIC

_LATEST = -1
_EARLIEST = -2
_MAX_TIMESTAMP = -3
_EARLIEST_LOCAL = -4
_LATEST_TIERED = -5
_EARLIEST_PENDING = -6
_SINCE = {_MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9, _EARLIEST_PENDING: 11}
_READ_COMMITTED = 1
_KNOWS_OFFSET_NOT_AVAILABLE = 5


async def handle(broker: Broker, request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    topics = []
    async for topic in context.paced(request.topics):
        answers = []
        denied = context.denial(DESCRIBE_TOPIC, topic.name, len(topic.partitions))
        times: Counter[int] = Counter()
        async for asked in context.paced(topic.partitions):
            times[asked.partition_index] += 1
        async for asked in context.paced(topic.partitions):
            try:
                if denied is not None:
                    code = denied.code
                elif times[asked.partition_index] > 1:
                    code = ErrorCode.INVALID_REQUEST
                else:
                    answers.append(await _look_up(broker, topic.name, asked, request, context.version))
                    continue
            except KafkaError as error:
                code = error.code
            answers.append(
                ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code)
            )
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


async def _look_up(
    broker: Broker, topic: str, asked: ListOffsetsPartition, request: ListOffsetsRequest, version: int
) -> ListOffsetsPartitionResponse:
    partition = broker.replicas.leader(topic, asked.partition_index)
    partition.check_epoch(asked.current_leader_epoch)
    log = partition.log
    timestamp = asked.timestamp
    if request.replica_id >= 0:
        end = log.log_end_offset
    else:
        committed_only = request.isolation_level == _READ_COMMITTED
        end = partition.last_stable_offset if committed_only else partition.high_watermark
        leading = partition.leading
        if (
            leading is not None
            and timestamp not in (_EARLIEST, _EARLIEST_LOCAL)
            and partition.high_watermark < leading.epoch_start_offset
        ):
            raise KafkaError(
                ErrorCode.OFFSET_NOT_AVAILABLE
                if version >= _KNOWS_OFFSET_NOT_AVAILABLE
                else ErrorCode.LEADER_NOT_AVAILABLE
            )
    answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    if timestamp < _EARLIEST_PENDING or version < _SINCE.get(timestamp, 0):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if timestamp == _LATEST:
        answer.offset, answer.leader_epoch = end, partition.leader_epoch
    elif timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        answer.offset = log.log_start_offset if timestamp == _EARLIEST else log.local_start_offset
        answer.leader_epoch = log.epoch_at(answer.offset)
    elif timestamp in (_LATEST_TIERED, _EARLIEST_PENDING):
        answer.offset = _tiered_end(log, timestamp)
        if answer.offset >= 0:
            answer.leader_epoch = log.epoch_at(answer.offset)
    elif timestamp == _MAX_TIMESTAMP:
        found = await asyncio.to_thread(log.max_timestamp_offset)
        if found is not None:
            answer.offset, answer.timestamp, answer.leader_epoch = found
    elif timestamp >= 0:
        found = None
        if log.log_start_offset < log.local_start_offset and broker.remote_log is not None:
            found = await remote_offset_for_timestamp(broker.remote_log, partition, timestamp, end)
        if found is None:
            found = await asyncio.to_thread(log.offset_for_timestamp, timestamp, end)
        if found is not None:
            answer.offset, answer.timestamp, answer.leader_epoch = found
    return answer


def _tiered_end(log: PartitionLog, timestamp: int) -> int:
    """Return the last offset in remote storage, or the first one that is not there; -1 if unknown."""
    if not log.is_tiered:
        return -1
    if timestamp == _LATEST_TIERED:
        return log.copied_upto - 1
    if log.copied_upto:
        return max(log.copied_upto, log.log_start_offset)
    return log.log_start_offset if log.local_start_offset == log.log_start_offset else -1
