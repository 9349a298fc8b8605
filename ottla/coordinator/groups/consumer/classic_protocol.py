"""Subscriptions and assignments in the classic consumer protocol, translated to topic ids."""

from __future__ import annotations

from typing import NamedTuple

from ottla.coordinator.groups.base.topics import Assignment, Topics
from ottla.protocol.codec import MalformedMessage
from ottla.protocol.messages.consumer_groups import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitionInAssignment,
)

_NEWEST = 3


class Subscription(NamedTuple):
    version: int
    topics: tuple[str, ...]
    owned: Assignment
    generation_id: int
    rack_id: str | None


def read_subscription(metadata: bytes, topics: Topics) -> Subscription:
    """Decode a subscription, skipping deleted topics. Raises ValueError if malformed."""
    version = _version(metadata)
    try:
        read = ConsumerProtocolSubscription.decode(metadata, version, 2)
    except MalformedMessage as error:
        raise ValueError("not a consumer's subscription") from error
    owned = {
        topic.topic_id: frozenset(part.partitions)
        for part in read.owned_partitions
        if part.partitions and (topic := topics.by_name(part.topic)) is not None
    }
    rack_id = read.rack_id or None  # librdkafka sends an empty string
    return Subscription(version, tuple(sorted(set(read.topics))), owned, read.generation_id, rack_id)


def read_assignment(data: bytes, topics: Topics) -> Assignment:
    """Decode an assignment; empty bytes are an empty assignment. Raises ValueError if malformed."""
    if not data:
        return {}
    try:
        read = ConsumerProtocolAssignment.decode(data, _version(data), 2)
    except MalformedMessage as error:
        raise ValueError("not a consumer's assignment") from error
    return {
        topic.topic_id: frozenset(part.partitions)
        for part in read.assigned_partitions
        if part.partitions and (topic := topics.by_name(part.topic)) is not None
    }


def write_assignment(assignment: Assignment, version: int, topics: Topics) -> bytes:
    parts = []
    for topic_id, partitions in assignment.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            parts.append(TopicPartitionInAssignment(topic=topic.name, partitions=sorted(partitions)))
    parts.sort(key=lambda part: part.topic)
    body = ConsumerProtocolAssignment(assigned_partitions=parts)
    return version.to_bytes(2, "big") + body.encode(version)


def _version(data: bytes) -> int:
    """Return the version to decode with.

    Later versions only append fields, so newer data decodes as the newest known version.
    """
    version = int.from_bytes(data[:2], "big", signed=True) if len(data) >= 2 else -1
    if version < 0:
        raise ValueError("it has no version")
    return min(version, _NEWEST)
