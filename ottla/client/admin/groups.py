"""Groups: list, describe, delete, and their committed offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.client.admin.offsets import Partition, available_offsets
from ottla.client.admin.routing import ask_coordinator, ask_group_coordinator, when_ready
from ottla.client.cluster import Cluster, CoordinatorType, Node
from ottla.client.connection import Connection
from ottla.client.errors import (
    ClientError,
    GroupNotEmpty,
    GroupNotFound,
    check_accepted,
    check_in_kafkas_words,
    error_code,
)
from ottla.protocol.codec import MalformedMessage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import groups as messages
from ottla.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerProtocolAssignment,
)
from ottla.protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)

# Consumer groups: list, describe with lag, delete, delete offsets, remove members. Also lists groups of any type.

_FIRST_WITH_TYPES = 5  # version of ListGroups
_CLASSIC_MEMBER = 0
_LAST_WITH_NAMES = 9  # version of OffsetFetch: later ones use topic ids


@dataclass(frozen=True, slots=True)
class GroupListing:
    group: str
    state: str
    type: (
        str  # in Kafka's spelling: Classic, Consumer, Share, Streams; empty if the broker does not report it
    )
    protocol: str

    @property
    def simple(self) -> bool:
        """True if the group has committed offsets but never had a member."""
        return not self.protocol


@dataclass(frozen=True, slots=True)
class Member:
    consumer_id: str
    client_id: str
    host: str
    group_instance_id: str | None
    partitions: list[Partition]
    is_classic: bool = False  # uses the classic protocol in a group of the new one


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


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int | None  # epoch of the committed record
    metadata: str  # the consumer's metadata


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
    leader_epoch: int | None = None  # epoch of the committed offset


def list_groups(
    cluster: Cluster, *, types: Iterable[str] = (), states: Iterable[str] = ()
) -> list[GroupListing]:
    """List the groups of all coordinators, each once; optionally only some types or states."""
    types, states = list(types), list(states)
    request = messages.ListGroupsRequest(states_filter=states, types_filter=types)

    def ask(node: int) -> messages.ListGroupsResponse:
        connection = cluster.node(node)
        if types and connection.version(request) < _FIRST_WITH_TYPES:
            raise ClientError(f"Broker {node} is too old to tell the types of groups apart.")
        answer = connection.request(request, messages.ListGroupsResponse)
        check_in_kafkas_words(answer)
        return answer

    found: dict[str, GroupListing] = {}
    for node in list(cluster.nodes()):
        for each in when_ready(cluster, lambda node=node: ask(node)).groups:  # type: ignore[misc]
            # Brokers differ in the type's case; Kafka's tools capitalize it.
            listing = GroupListing(
                each.group_id, each.group_state, each.group_type.capitalize(), each.protocol_type
            )
            found.setdefault(each.group_id, listing)
    return list(found.values())


def list_consumer_groups(cluster: Cluster) -> list[GroupListing]:
    """List the groups that consumers joined or committed offsets to, sorted by name."""
    listed = (each for each in list_groups(cluster) if each.protocol in ("consumer", ""))
    return sorted(listed, key=lambda listing: listing.group)


def describe_group(cluster: Cluster, group: str) -> GroupDescription:
    """Raises GroupNotFound for a group of another type, or without members and offsets."""

    def ask(connection: Connection, node: Node) -> GroupDescription:
        described = None
        if ConsumerGroupDescribeRequest.api_key in connection.versions:
            described = _describe_consumer(connection, group, node)
        return described or _describe_classic(connection, group, node)

    described = ask_coordinator(cluster, CoordinatorType.GROUP, group, ask)
    if described.state == "Dead":
        raise GroupNotFound(group)
    return described


def _describe_consumer(connection: Connection, group: str, node: Node) -> GroupDescription | None:
    """Return None if the group does not use the new protocol."""
    request = ConsumerGroupDescribeRequest(group_ids=[group])
    [found] = connection.request(request, ConsumerGroupDescribeResponse).groups
    if found.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    check_accepted(f"Consumer group '{group}'", found)
    members = [
        Member(
            member.member_id,
            member.client_id,
            member.client_host,
            member.instance_id,
            sorted(
                (topic.topic_name, number)
                for topic in member.assignment.topic_partitions
                for number in topic.partitions
            ),
            member.member_type == _CLASSIC_MEMBER,
        )
        for member in found.members
    ]
    return GroupDescription(group, found.group_state, "Consumer", found.assignor_name, *node[:3], members)


def _describe_classic(connection: Connection, group: str, node: Node) -> GroupDescription:
    request = messages.DescribeGroupsRequest(groups=[group])
    [found] = connection.request(request, messages.DescribeGroupsResponse).groups
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise GroupNotFound(group)
    check_accepted(f"Consumer group '{group}'", found)
    members = [
        Member(
            member.member_id,
            member.client_id,
            member.client_host,
            member.group_instance_id or None,
            _assigned(member.member_assignment) if found.protocol_type == "consumer" else [],
        )
        for member in found.members
    ]
    return GroupDescription(group, found.group_state, "Classic", found.protocol_data, *node[:3], members)


def _assigned(data: bytes) -> list[Partition]:
    """Return the partitions assigned to a consumer by the group's leader; none during a rebalance."""
    if not data:
        return []
    version = min(int.from_bytes(data[:2], "big", signed=True), ConsumerProtocolAssignment.versions[1])
    try:
        assignment = ConsumerProtocolAssignment.decode(data, version, 2)
    except MalformedMessage:
        return []
    return sorted(
        (topic.topic, number) for topic in assignment.assigned_partitions for number in topic.partitions
    )


def committed_offsets(cluster: Cluster, group: str) -> dict[Partition, int]:
    return {partition: each.offset for partition, each in committed(cluster, group).items()}


def committed(cluster: Cluster, group: str) -> dict[Partition, CommittedOffset]:
    request = OffsetFetchRequest(
        group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]
    )

    def ask(connection: Connection, _node: Node) -> dict[Partition, CommittedOffset]:
        answer = connection.request(request, OffsetFetchResponse, max_version=_LAST_WITH_NAMES)
        found = answer.groups[0] if answer.groups else answer
        check_accepted(f"Consumer group '{group}'", found)
        return {
            (topic.name, each.partition_index): CommittedOffset(
                each.committed_offset,
                None if each.committed_leader_epoch < 0 else each.committed_leader_epoch,
                each.metadata or "",
            )
            for topic in found.topics
            for each in topic.partitions
            if each.committed_offset >= 0
        }

    return ask_coordinator(cluster, CoordinatorType.GROUP, group, ask)


def group_lag(cluster: Cluster, described: GroupDescription) -> list[PartitionLag]:
    """Return one row for each partition with a committed offset or an owner, and for each idle member."""
    positions = committed(cluster, described.group)
    owners = {partition: member for member in described.members for partition in member.partitions}
    partitions = sorted(positions.keys() | owners.keys())
    _, ends = available_offsets(cluster, partitions)
    rows = []
    for topic, partition in partitions:
        position = positions.get((topic, partition))
        current = None if position is None else position.offset
        end = ends.get((topic, partition))
        owner = owners.get((topic, partition))
        rows.append(
            PartitionLag(
                described.group,
                topic,
                partition,
                current,
                end,
                None if current is None or end is None else max(end - current, 0),
                owner.consumer_id if owner else None,
                owner.host if owner else None,
                owner.client_id if owner else None,
                None if position is None else position.leader_epoch,
            )
        )
    return rows


def delete_groups(cluster: Cluster, groups: Sequence[str]) -> None:
    for group in groups:

        def check(answer: messages.DeleteGroupsResponse, group: str = group) -> None:
            [result] = answer.results
            if result.error_code == ErrorCode.NON_EMPTY_GROUP:
                raise GroupNotEmpty(group, describe_group(cluster, group).state)
            if result.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                raise GroupNotFound(group)
            check_accepted(f"Consumer group '{group}'", result)

        request = messages.DeleteGroupsRequest(groups_names=[group])
        ask_group_coordinator(cluster, group, request, messages.DeleteGroupsResponse, check)


def delete_offsets(
    cluster: Cluster, group: str, partitions: Iterable[Partition], state: str | None = None
) -> None:
    """Delete committed offsets. Members may be active, but not subscribed to these topics.

    `state` is the state of a group that is neither classic nor a consumer group.
    """
    state = describe_group(cluster, group).state if state is None else state
    by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=partition))
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[OffsetDeleteRequestTopic(name=topic, partitions=each) for topic, each in by_topic.items()],
    )

    def check(answer: OffsetDeleteResponse) -> None:
        numbers = (each.error_code for topic in answer.topics for each in topic.partitions)
        for code in map(error_code, (answer.error_code, *numbers)):
            if code == ErrorCode.NON_EMPTY_GROUP:
                raise GroupNotEmpty(group, state)
            if code == ErrorCode.GROUP_ID_NOT_FOUND:
                raise GroupNotFound(group)
            if code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
                raise ClientError(
                    f"Consumer group '{group}' is still subscribed to {', '.join(by_topic)}; "
                    "stop its consumers first.",
                    code,
                )
            if code != ErrorCode.NONE:
                raise ClientError(f"The offsets of group '{group}' were not deleted: {code.name}.", code)

    ask_group_coordinator(cluster, group, request, OffsetDeleteResponse, check)


def remove_members(cluster: Cluster, group: str, members: Collection[str]) -> None:
    request = messages.LeaveGroupRequest(
        group_id=group, members=[messages.MemberIdentity(member_id=member) for member in members]
    )
    ask_group_coordinator(
        cluster,
        group,
        request,
        messages.LeaveGroupResponse,
        lambda answer: check_in_kafkas_words(answer, *answer.members),
    )


# Committed offsets of many groups, with one request per coordinator.

_FIRST_WITH_MANY_GROUPS = 8  # version of OffsetFetch


def committed_by_group(cluster: Cluster, groups: Sequence[str]) -> dict[str, dict[Partition, int]]:
    """Return offsets by group. Groups without an answer from their coordinator are omitted."""
    found: dict[str, dict[Partition, int]] = {}
    if not groups:
        return found
    by_node: dict[Node, list[str]] = {}
    for group, node in cluster.coordinators(CoordinatorType.GROUP, groups).items():
        by_node.setdefault(node, []).append(group)
    for node, asked in by_node.items():
        found |= _ask(cluster, node, asked)
    return found


def _ask(cluster: Cluster, node: Node, groups: Iterable[str]) -> dict[str, dict[Partition, int]]:
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    )
    connection = cluster.connection(node.address)
    if connection.version(request) < _FIRST_WITH_MANY_GROUPS:
        return _one_by_one(cluster, groups)
    answer = connection.request(request, OffsetFetchResponse, max_version=_LAST_WITH_NAMES)
    return {
        group.group_id: {
            (topic.name, each.partition_index): each.committed_offset
            for topic in group.topics
            for each in topic.partitions
            if each.committed_offset >= 0 and not each.error_code
        }
        for group in answer.groups
        if not group.error_code
    }


def _one_by_one(cluster: Cluster, groups: Iterable[str]) -> dict[str, dict[Partition, int]]:
    found = {}
    for group in groups:
        try:
            found[group] = committed_offsets(cluster, group)
        except ClientError:
            continue
    return found
