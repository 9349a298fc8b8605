"""What members of a consumer group tell each other through the broker: subscriptions and assignments."""

from __future__ import annotations

from ottla.protocol.codec import (
    Data,
    Struct,
    array,
    binary,
    int32,
    string,
)


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
