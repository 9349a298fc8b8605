"""Consumer groups (KIP-848), and the embedded consumer protocol of classic groups."""

from __future__ import annotations

from ottla.protocol.codec import (
    Data,
    Request,
    Response,
    Struct,
    array,
    binary,
    boolean,
    int8,
    int16,
    int32,
    string,
    struct,
    uuid,
)

# ConsumerGroupHeartbeat, key 68


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupHeartbeatRequest(Request, key=68, versions="0-1", flexible="0+"):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string, nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+", default=None)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupHeartbeatResponse(Response, key=68, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable="0+")


# ConsumerGroupDescribe, key 69


class ConsumerGroupDescribeRequest(Request, key=69, versions="0-1", flexible="0+"):
    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


class DescribedTopicPartitions(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class DescribedAssignment(Struct):
    topic_partitions: list[DescribedTopicPartitions] = array(DescribedTopicPartitions)


class Member(Struct):
    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: DescribedAssignment = struct(DescribedAssignment)
    target_assignment: DescribedAssignment = struct(DescribedAssignment)
    member_type: int = int8("1+", default=-1)


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-2147483648)


class ConsumerGroupDescribeResponse(Response, key=69, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)


# The embedded consumer protocol: subscriptions and assignments that members exchange through the broker


class TopicPartition(Struct):
    topic: str = string("1+")
    partitions: list[int] = array(int32, "1+")


class ConsumerProtocolSubscription(Data, versions="0-3"):
    topics: list[str] = array(string)
    user_data: bytes | None = binary(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+")
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


class TopicPartitionInAssignment(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class ConsumerProtocolAssignment(Data, versions="0-3"):
    assigned_partitions: list[TopicPartitionInAssignment] = array(TopicPartitionInAssignment)
    user_data: bytes | None = binary(nullable="0+", default=None)
