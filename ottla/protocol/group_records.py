"""How groups of KIP-848 and share groups are written to `__consumer_offsets`, and the state of share-partitions to
`__share_group_state`.
"""

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
    uuid,
)


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


class HeldPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", default=None, tag=0)


class ConsumerCurrentMemberValue(Data, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[HeldPartitions] = array(HeldPartitions)
    partitions_pending_revocation: list[HeldPartitions] = array(HeldPartitions)


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


#: By the version at the start of a key: the layouts of key and value.
GROUPS: dict[int, tuple[type[Data], type[Data]]] = {
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
}
SHARE_STATES: dict[int, tuple[type[Data], type[Data]]] = {
    0: (SharePartitionKey, ShareSnapshotValue),
    1: (SharePartitionKey, ShareUpdateValue),
}
