"""Reading partitions: Fetch, ListOffsets and OffsetForLeaderEpoch; also DeleteRecords."""

from __future__ import annotations

from typing import Any

from ottla.protocol.codec import (
    Request,
    Response,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uuid,
)

# Fetch, key 1

# Special session epochs (KIP-227): start a new session, and use no session.
INITIAL_EPOCH, FINAL_EPOCH = 0, -1


class ReplicaState(Struct):
    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


class FetchPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid("17+", tag=0)
    high_watermark: int = int64("18+", default=9223372036854775807, tag=1)


class FetchTopic(Struct):
    topic: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    topic: str = string("7-12")
    topic_id: bytes = uuid("13+")
    partitions: list[int] = array(int32, "7+")


class FetchRequest(Request, key=1, versions="4-18", flexible="12+"):
    cluster_id: str | None = string("12+", nullable="12+", default=None, tag=0)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState | None = struct(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2147483647)
    isolation_level: int = int8()
    session_id: int = int32("7+")
    session_epoch: int = int32("7+", default=-1)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+")


class EpochEndOffset(Struct):
    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


class SnapshotId(Struct):
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class AbortedTransaction(Struct):
    producer_id: int = int64()
    first_offset: int = int64()


class PartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1)
    diverging_epoch: EpochEndOffset | None = struct(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId | None = struct(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, nullable="4+")
    preferred_read_replica: int = int32("11+", default=-1)
    records: Any = records(nullable="0+")


class FetchableTopicResponse(Struct):
    topic: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    node_id: int = int32("16+")
    host: str = string("16+")
    port: int = int32("16+")
    rack: str | None = string("16+", nullable="16+", default=None)


class FetchResponse(Response, key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("7+")
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)


# ListOffsets, key 2


class ListOffsetsPartition(Struct):
    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1)
    timestamp: int = int64()


class ListOffsetsTopic(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsRequest(Request, key=2, versions="1-11", flexible="6+"):
    replica_id: int = int32()
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+")


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Response, key=2, versions="1-11", flexible="6+"):
    throttle_time_ms: int = int32("2+")
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)


# OffsetForLeaderEpoch, key 23


class OffsetForLeaderPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32(default=-1)
    leader_epoch: int = int32()


class OffsetForLeaderTopic(Struct):
    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


class OffsetForLeaderEpochRequest(Request, key=23, versions="2-4", flexible="4+"):
    replica_id: int = int32("3+", default=-2)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


class OffsetForLeaderEpochResult(Struct):
    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = string()
    partitions: list[OffsetForLeaderEpochResult] = array(OffsetForLeaderEpochResult)


class OffsetForLeaderEpochResponse(Response, key=23, versions="2-4", flexible="4+"):
    throttle_time_ms: int = int32()
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)


# DeleteRecords, key 21


class DeleteRecordsPartition(Struct):
    partition_index: int = int32()
    offset: int = int64()


class DeleteRecordsTopic(Struct):
    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


class DeleteRecordsRequest(Request, key=21, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


class DeleteRecordsTopicResult(Struct):
    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


class DeleteRecordsResponse(Response, key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
