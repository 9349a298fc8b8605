"""Consumer groups: list, describe with lag, delete, delete offsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.cli.errors import GroupNotEmpty, GroupNotFound, JobError
from ottla.cli.jobs.offsets import Partition, available_offsets

if TYPE_CHECKING:
    from ottla.cli.client import Client

# The client library's names of the states → Kafka's.
_STATES = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": "Stable",
    "EMPTY": "Empty",
    "DEAD": "Dead",
    "UNKNOWN": "Unknown",
}


@dataclass(frozen=True, slots=True)
class GroupListing:
    group: str
    state: str
    type: str
    simple: bool  # offsets are committed to it, but no consumer ever joined


@dataclass(frozen=True, slots=True)
class Member:
    consumer_id: str
    client_id: str
    host: str
    group_instance_id: str | None
    partitions: list[Partition]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group: str
    state: str
    type: str
    assignor: str
    coordinator_id: int
    coordinator_host: str
    coordinator_port: int
    members: list[Member]

    @property
    def active(self) -> bool:
        return self.state not in ("Empty", "Dead")


@dataclass(frozen=True, slots=True)
class PartitionLag:
    group: str
    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    consumer_id: str | None
    host: str | None
    client_id: str | None
    leader_epoch: int | None = None  # in which the committed offset was read


def list_groups(client: Client) -> list[GroupListing]:
    listed = client.result_from_coordinator(
        lambda: client.admin.list_consumer_groups(request_timeout=client.timeout), "The list of groups"
    )
    if not listed.valid and listed.errors:
        raise JobError(str(listed.errors[0]))
    return sorted(
        (
            GroupListing(
                group.group_id,
                _STATES.get(group.state.name, group.state.name),
                group.type.name.capitalize(),
                bool(group.is_simple_consumer_group),
            )
            for group in listed.valid
        ),
        key=lambda listing: listing.group,
    )


def describe_group(client: Client, group: str) -> GroupDescription:
    """GroupNotFound for a group that has neither members nor offsets."""
    client.ensure_reachable()
    try:
        found = client.result_from_coordinator(
            lambda: client.admin.describe_consumer_groups([group], request_timeout=client.timeout)[group],
            f"Consumer group '{group}'",
        )
    except JobError as error:
        if error.code == "GROUP_ID_NOT_FOUND":
            raise GroupNotFound(group) from None
        raise
    state = _STATES.get(found.state.name, found.state.name)
    if state == "Dead":
        raise GroupNotFound(group)
    return GroupDescription(
        group,
        state,
        found.type.name.capitalize(),
        found.partition_assignor or "",
        found.coordinator.id,
        found.coordinator.host,
        found.coordinator.port,
        [_member(member) for member in found.members],
    )


def _member(member: Any) -> Member:
    assigned = member.assignment.topic_partitions if member.assignment else []
    return Member(
        member.member_id,
        member.client_id,
        member.host,
        member.group_instance_id or None,
        sorted((partition.topic, partition.partition) for partition in assigned),
    )


def committed_offsets(client: Client, group: str) -> dict[Partition, int]:
    return {partition: offset for partition, (offset, _) in _committed(client, group).items()}


def _committed(client: Client, group: str) -> dict[Partition, tuple[int, int | None]]:
    """What the group has committed. Ask `describe_group` first: a coordinator that is still loading makes
    this call of confluent-kafka 2.16 crash the process."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    futures = client.admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], request_timeout=client.timeout
    )
    found = client.result(futures[group], f"Consumer group '{group}'")
    return {
        (partition.topic, partition.partition): (partition.offset, partition.leader_epoch)
        for partition in found.topic_partitions
        if partition.offset >= 0
    }


def group_lag(client: Client, described: GroupDescription) -> list[PartitionLag]:
    """One row for each partition that has a committed offset or an owner, and for each idle member."""
    committed = _committed(client, described.group)
    owners = {partition: member for member in described.members for partition in member.partitions}
    partitions = sorted(committed.keys() | owners.keys())
    _, ends = available_offsets(client, partitions)
    rows = []
    for topic, partition in partitions:
        current, leader_epoch = committed.get((topic, partition), (None, None))
        end = ends.get((topic, partition))
        owner = owners.get((topic, partition))
        lag = None if current is None or end is None else max(end - current, 0)
        rows.append(
            PartitionLag(
                described.group,
                topic,
                partition,
                current,
                end,
                lag,
                owner.consumer_id if owner else None,
                owner.host if owner else None,
                owner.client_id if owner else None,
                leader_epoch,
            )
        )
    return rows


def delete_groups(client: Client, groups: Sequence[str]) -> None:
    client.ensure_reachable()
    for group in groups:
        try:
            client.result_from_coordinator(
                lambda group=group: client.admin.delete_consumer_groups(  # type: ignore[misc]
                    [group], request_timeout=client.timeout
                )[group],
                f"Consumer group '{group}'",
            )
        except JobError as error:
            if error.code == "NON_EMPTY_GROUP":
                raise GroupNotEmpty(group, describe_group(client, group).state) from None
            if error.code == "GROUP_ID_NOT_FOUND":
                raise GroupNotFound(group) from None
            raise


def commit_offsets(client: Client, group: str, offsets: Iterable[tuple[Partition, int]]) -> None:
    """Write a group's offsets from outside; the group must have no members."""
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

    from ottla.cli.errors import from_kafka

    request = ConsumerGroupTopicPartitions(
        group, [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets]
    )
    written = client.result_from_coordinator(
        lambda: client.admin.alter_consumer_group_offsets([request], request_timeout=client.timeout)[group],
        f"Consumer group '{group}'",
    )
    for partition in written.topic_partitions:
        if partition.error is None:
            continue
        error = partition.error.args[0] if isinstance(partition.error, KafkaException) else partition.error
        raise from_kafka(error, f"Partition {partition.partition} of topic '{partition.topic}'")


def delete_offsets(client: Client, group: str, partitions: Iterable[Partition]) -> None:
    """Forget committed offsets. Members may be active, but not subscribed to these topics."""
    from ottla.cli.wire import Connection
    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.messages import offsets as offset_messages

    described = describe_group(client, group)
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    request = offset_messages.OffsetDeleteRequest(
        group_id=group,
        topics=[
            offset_messages.OffsetDeleteRequestTopic(
                name=topic,
                partitions=[
                    offset_messages.OffsetDeleteRequestPartition(partition_index=number) for number in numbers
                ],
            )
            for topic, numbers in by_topic.items()
        ],
    )
    with Connection(client, described.coordinator_host, described.coordinator_port) as connection:
        answer = connection.request(request, offset_messages.OffsetDeleteResponse)
    codes = [
        answer.error_code,
        *(partition.error_code for topic in answer.topics for partition in topic.partitions),
    ]
    for error in map(ErrorCode, codes):
        if error == ErrorCode.NON_EMPTY_GROUP:
            raise GroupNotEmpty(group, described.state)
        if error == ErrorCode.GROUP_ID_NOT_FOUND:
            raise GroupNotFound(group)
        if error == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
            raise JobError(
                f"Consumer group '{group}' is still subscribed to {', '.join(by_topic)}; "
                "stop its consumers first.",
                error.name,
            )
        if error != ErrorCode.NONE:
            raise JobError(f"The offsets of group '{group}' were not deleted: {error.name}.", error.name)
