"""Share-partition state, which brokers store with share coordinators (KIP-932)."""

from __future__ import annotations

from ottla.protocol.codec import Request, Response, Struct, array, int8, int16, int32, int64, string, uuid

# InitializeShareGroupState, key 83


class InitializeStatePartitionData(Struct):
    partition: int = int32()
    state_epoch: int = int32()
    start_offset: int = int64()


class InitializeStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[InitializeStatePartitionData] = array(InitializeStatePartitionData)


class InitializeShareGroupStateRequest(Request, key=83, versions="0", flexible="0+"):
    group_id: str = string()
    topics: list[InitializeStateData] = array(InitializeStateData)


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class InitializeStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class InitializeShareGroupStateResponse(Response, key=83, versions="0", flexible="0+"):
    results: list[InitializeStateResult] = array(InitializeStateResult)


# ReadShareGroupState, key 84


class ReadStatePartitionData(Struct):
    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[ReadStatePartitionData] = array(ReadStatePartitionData)


class ReadShareGroupStateRequest(Request, key=84, versions="0", flexible="0+"):
    group_id: str = string()
    topics: list[ReadStateData] = array(ReadStateData)


class StateBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class ReadStatePartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


class ReadStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[ReadStatePartitionResult] = array(ReadStatePartitionResult)


class ReadShareGroupStateResponse(Response, key=84, versions="0", flexible="0+"):
    results: list[ReadStateResult] = array(ReadStateResult)


# WriteShareGroupState, key 85


class WriteStatePartitionData(Struct):
    partition: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1)
    state_batches: list[StateBatch] = array(StateBatch)


class WriteStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[WriteStatePartitionData] = array(WriteStatePartitionData)


class WriteShareGroupStateRequest(Request, key=85, versions="0-1", flexible="0+"):
    group_id: str = string()
    topics: list[WriteStateData] = array(WriteStateData)


class WriteStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class WriteShareGroupStateResponse(Response, key=85, versions="0-1", flexible="0+"):
    results: list[WriteStateResult] = array(WriteStateResult)


# DeleteShareGroupState, key 86


class DeleteStatePartitionData(Struct):
    partition: int = int32()


class DeleteStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[DeleteStatePartitionData] = array(DeleteStatePartitionData)


class DeleteShareGroupStateRequest(Request, key=86, versions="0", flexible="0+"):
    group_id: str = string()
    topics: list[DeleteStateData] = array(DeleteStateData)


class DeleteStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class DeleteShareGroupStateResponse(Response, key=86, versions="0", flexible="0+"):
    results: list[DeleteStateResult] = array(DeleteStateResult)


# ReadShareGroupStateSummary, key 87


class ReadSummaryPartitionData(Struct):
    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateSummaryData(Struct):
    topic_id: bytes = uuid()
    partitions: list[ReadSummaryPartitionData] = array(ReadSummaryPartitionData)


class ReadShareGroupStateSummaryRequest(Request, key=87, versions="0-1", flexible="0+"):
    group_id: str = string()
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData)


class ReadSummaryPartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1)


class ReadStateSummaryResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[ReadSummaryPartitionResult] = array(ReadSummaryPartitionResult)


class ReadShareGroupStateSummaryResponse(Response, key=87, versions="0-1", flexible="0+"):
    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult)
