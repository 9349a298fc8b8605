"""Record layouts of `__consumer_offsets`, `__transaction_state` and `__share_group_state`."""

from __future__ import annotations

from ottla.protocol.codec import (
    Data,
    Struct,
    array,
    binary,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
    uuid,
)


class OffsetCommitKey(Data, versions="0-1"):
    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Data, versions="0-4", flexible="4+"):
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1)
    topic_id: bytes = uuid("4+", tag=0)


class GroupMetadataKey(Data, versions="2"):
    group: str = string("2+")


class MemberMetadata(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+")
    session_timeout: int = int32()
    subscription: bytes = binary()
    assignment: bytes = binary()


class GroupMetadataValue(Data, versions="0-4", flexible="4+"):
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1)
    members: list[MemberMetadata] = array(MemberMetadata)


class GroupKey(Data, versions="0"):
    group_id: str = string()


class MemberKey(Data, versions="0"):
    group_id: str = string()
    member_id: str = string()


class RegularExpressionKey(Data, versions="0"):
    group_id: str = string()
    regular_expression: str = string()


class RegularExpressionValue(Data, versions="0", flexible="0+"):
    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()


class ConsumerGroupMetadataValue(Data, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64(tag=0, default=0)


class ClassicProtocol(Struct):
    name: str = string()
    metadata: bytes = binary()


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class ConsumerMemberMetadataValue(Data, versions="0", flexible="0+"):
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+", default=None)
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, nullable="0+", tag=0
    )


class TargetMetadataValue(Data, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, default=0)


class TargetPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class TargetMemberValue(Data, versions="0", flexible="0+"):
    topic_partitions: list[TargetPartitions] = array(TargetPartitions)


class CurrentPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", default=None, tag=0)


class ConsumerCurrentMemberValue(Data, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[CurrentPartitions] = array(CurrentPartitions)
    partitions_pending_revocation: list[CurrentPartitions] = array(CurrentPartitions)


class ShareMemberMetadataValue(Data, versions="0", flexible="0+"):
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)


class ShareGroupMetadataValue(Data, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64()


class ShareCurrentMemberValue(Data, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TargetPartitions] = array(TargetPartitions)


class TopicPartitionsInfo(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class TopicInfo(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()


class StatePartitionsValue(Data, versions="0", flexible="0+"):
    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[TopicInfo] = array(TopicInfo)


class StreamsKeyValue(Struct):
    key: str = string()
    value: str = string()


class StreamsGroupMetadataValue(Data, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(tag=0, default=-1)
    last_assignment_configs: list[StreamsKeyValue] | None = array(
        StreamsKeyValue, nullable="0+", default=None, tag=1
    )


class StreamsEndpoint(Struct):
    host: str = string()
    port: int = uint16()


class StreamsMemberMetadataValue(Data, versions="0", flexible="0+"):
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: StreamsEndpoint | None = struct(StreamsEndpoint, nullable="0+")
    client_tags: list[StreamsKeyValue] = array(StreamsKeyValue)


class TargetTasks(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array(int32)


class StreamsTargetMemberValue(Data, versions="0", flexible="0+"):
    active_tasks: list[TargetTasks] = array(TargetTasks)
    standby_tasks: list[TargetTasks] = array(TargetTasks)
    warmup_tasks: list[TargetTasks] = array(TargetTasks)


class TaskEpochs(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", default=None, tag=0)


class StreamsCurrentMemberValue(Data, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[TaskEpochs] = array(TaskEpochs)
    standby_tasks: list[TaskEpochs] = array(TaskEpochs)
    warmup_tasks: list[TaskEpochs] = array(TaskEpochs)
    active_tasks_pending_revocation: list[TaskEpochs] = array(TaskEpochs)
    standby_tasks_pending_revocation: list[TaskEpochs] = array(TaskEpochs)
    warmup_tasks_pending_revocation: list[TaskEpochs] = array(TaskEpochs)


class StreamsTopicInfo(Struct):
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[StreamsKeyValue] = array(StreamsKeyValue)


class StreamsCopartitionGroup(Struct):
    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


class StreamsSubtopology(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[StreamsTopicInfo] = array(StreamsTopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[StreamsTopicInfo] = array(StreamsTopicInfo)
    copartition_groups: list[StreamsCopartitionGroup] = array(StreamsCopartitionGroup)


class StreamsTopologyValue(Data, versions="0", flexible="0+"):
    epoch: int = int32()
    subtopologies: list[StreamsSubtopology] = array(StreamsSubtopology)


class SharePartitionKey(Data, versions="0"):
    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


class StateBatchValue(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class ShareSnapshotValue(Data, versions="0", flexible="0+"):
    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(tag=0, default=-1)
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: list[StateBatchValue] = array(StateBatchValue)


class ShareUpdateValue(Data, versions="0", flexible="0+"):
    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(tag=0, default=-1)
    state_batches: list[StateBatchValue] = array(StateBatchValue)


class TransactionLogKey(Data, versions="0"):
    transactional_id: str = string()


class PartitionsSchema(Struct):
    topic: str = string()
    partition_ids: list[int] = array(int32)


class TransactionLogValue(Data, versions="0-1", flexible="1+"):
    producer_id: int = int64()
    previous_producer_id: int = int64("1+", tag=0, default=-1)
    next_producer_id: int = int64("1+", tag=1, default=-1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16("1+", tag=3, default=-1)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", tag=2)


#: Layouts of key and value, by the version at the start of the key.
GROUPS: dict[int, tuple[type[Data], type[Data]]] = {
    0: (OffsetCommitKey, OffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    3: (GroupKey, ConsumerGroupMetadataValue),
    5: (MemberKey, ConsumerMemberMetadataValue),
    6: (GroupKey, TargetMetadataValue),
    7: (MemberKey, TargetMemberValue),
    8: (MemberKey, ConsumerCurrentMemberValue),
    10: (MemberKey, ShareMemberMetadataValue),
    11: (GroupKey, ShareGroupMetadataValue),
    12: (GroupKey, TargetMetadataValue),
    13: (MemberKey, TargetMemberValue),
    14: (MemberKey, ShareCurrentMemberValue),
    15: (GroupKey, StatePartitionsValue),
    16: (RegularExpressionKey, RegularExpressionValue),
    17: (GroupKey, StreamsGroupMetadataValue),
    19: (MemberKey, StreamsMemberMetadataValue),
    20: (GroupKey, TargetMetadataValue),
    21: (MemberKey, StreamsTargetMemberValue),
    22: (MemberKey, StreamsCurrentMemberValue),
    23: (GroupKey, StreamsTopologyValue),
}
SHARE_STATES: dict[int, tuple[type[Data], type[Data]]] = {
    0: (SharePartitionKey, ShareSnapshotValue),
    1: (SharePartitionKey, ShareUpdateValue),
}
TRANSACTIONS: dict[int, tuple[type[Data], type[Data]]] = {0: (TransactionLogKey, TransactionLogValue)}
