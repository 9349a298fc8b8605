"""Coordinators: leaders of the internal topics' partitions, and reasons for missing ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import IntEnum

from ottla.client.errors import ClientError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import string_hash
from ottla.protocol.messages.cluster import MetadataResponsePartition, MetadataResponseTopic


class CoordinatorType(IntEnum):
    """Key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2

    @property
    def topic(self) -> str:
        return _TOPICS[self]

    @property
    def of_what(self) -> str:
        return _OF_WHAT[self]


_TOPICS = {
    CoordinatorType.GROUP: "__consumer_offsets",
    CoordinatorType.TRANSACTION: "__transaction_state",
    CoordinatorType.SHARE: "__share_group_state",
}
_OF_WHAT = {
    CoordinatorType.GROUP: "group",
    CoordinatorType.TRANSACTION: "transactional id",
    CoordinatorType.SHARE: "share-partition",
}
_SMALLEST = 1 << 31  # the signed 32-bit integer without an absolute value


def coordinator_partition(key: str, partitions: int) -> int:
    """Return the internal topic's partition for a group, transactional id or share-partition."""
    value = string_hash(key)
    if value == _SMALLEST:
        return 0
    return (value if value < _SMALLEST else (1 << 32) - value) % partitions


def share_key(group: str, topic_id: bytes, partition: int) -> str:
    import base64

    return f"{group}:{base64.urlsafe_b64encode(topic_id).decode().rstrip('=')}:{partition}"


def without_leader(topic: str, partition: MetadataResponsePartition, live: Collection[int] = ()) -> str:
    clause = f"partition {partition.partition_index} of topic {topic} has no leader"
    if lost := [each for each in partition.offline_replicas if each in live]:
        return (
            f"{clause}, because broker {lost[0]} runs without its log: the broker's log says why. To give the records "
            "of the partition up, run: kafka-leader-election --election-type unclean "
            f"--topic {topic} --partition {partition.partition_index}"
        )
    offline = partition.offline_replicas or partition.replica_nodes
    if not offline:
        return clause
    brokers = (
        f"broker {offline[0]} is" if len(offline) == 1 else f"brokers {', '.join(map(str, offline))} are"
    )
    return f"{clause} ({brokers} offline)"


def no_coordinator(
    kind: CoordinatorType, key: str, topics: Iterable[MetadataResponseTopic]
) -> ClientError | None:
    """Explain from the internal topic's metadata why `key` has no coordinator; None if the metadata does not tell."""
    for topic in topics:
        if topic.name != kind.topic or not topic.partitions:
            continue
        number = coordinator_partition(key, len(topic.partitions))
        for partition in topic.partitions:
            if partition.partition_index == number and partition.leader_id < 0:
                reason = without_leader(kind.topic, partition)
                return ClientError(
                    f"The coordinator of {kind.of_what} '{key}' is not available: {reason}.",
                    ErrorCode.COORDINATOR_NOT_AVAILABLE,
                )
    return None


def lost_share_state(
    group: str, topics: Iterable[MetadataResponseTopic], keys: Iterable[str] | None = None
) -> ClientError | None:
    """Explain why a share group's positions are unknown; None if each state partition has a leader.

    The group's coordinator asks those leaders, and answers late or never without one. `keys` are the relevant
    share-partitions, by default any.
    """
    for topic in topics:
        if topic.name != CoordinatorType.SHARE.topic or not topic.partitions:
            continue
        count = len(topic.partitions)
        wanted = None if keys is None else {coordinator_partition(key, count) for key in keys}
        for partition in sorted(topic.partitions, key=lambda each: each.partition_index):
            if partition.leader_id < 0 and (wanted is None or partition.partition_index in wanted):
                reason = without_leader(topic.name, partition)
                return ClientError(
                    f"The state of share group '{group}' is not available: {reason}.",
                    ErrorCode.COORDINATOR_NOT_AVAILABLE,
                )
    return None
