"""MirrorAppend: an Ottla extension outside Kafka's protocol."""

from __future__ import annotations

from typing import Any

from ottla.protocol.codec import Request, Response, Struct, array, int16, int32, int64, records, string


class MirrorAppendPartition(Struct):
    index: int = int32()
    #: Log start offset of the source; -1 if unknown.
    log_start_offset: int = int64(default=-1)
    records: Any = records(nullable="0+")


class MirrorAppendTopic(Struct):
    name: str = string()
    partitions: list[MirrorAppendPartition] = array(MirrorAppendPartition)


class MirrorAppendRequest(Request, key=10001, versions="0", flexible="0+"):
    link: str = string()
    timeout_ms: int = int32()
    topics: list[MirrorAppendTopic] = array(MirrorAppendTopic)


class MirrorAppendPartitionResult(Struct):
    index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    log_start_offset: int = int64(default=-1)
    log_end_offset: int = int64(default=-1)
    high_watermark: int = int64(default=-1)
    leader_epoch: int = int32(default=-1)


class MirrorAppendTopicResult(Struct):
    name: str = string()
    partitions: list[MirrorAppendPartitionResult] = array(MirrorAppendPartitionResult)


class MirrorAppendResponse(Response, key=10001, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    topics: list[MirrorAppendTopicResult] = array(MirrorAppendTopicResult)
