"""Produce, and MirrorAppend: an Ottla extension outside Kafka's protocol."""

from __future__ import annotations

from typing import Any

from ottla.protocol.codec import (
    Request,
    Response,
    Struct,
    array,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uuid,
)

# Produce.


class PartitionProduceData(Struct):
    index: int = int32()
    records: Any = records(nullable="0+")


class TopicProduceData(Struct):
    name: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(Request, key=0, versions="3-13", flexible="9+"):
    transactional_id: str | None = string(nullable="3+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class PartitionProduceResponse(Struct):
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+")
    error_message: str | None = string("8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    name: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


class NodeEndpoint(Struct):
    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", nullable="10+", default=None)


class ProduceResponse(Response, key=0, versions="3-13", flexible="9+"):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32()
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)


# MirrorAppend: an Ottla extension outside Kafka's protocol.


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
