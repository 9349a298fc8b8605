"""Share groups: describe, show and move positions, delete."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from ottla.client.admin.offsets import Partition
from ottla.client.admin.routing import ask_coordinator, ask_group_coordinator
from ottla.client.cluster import Cluster, CoordinatorType, Node
from ottla.client.connection import Connection
from ottla.client.coordinators import lost_share_state, share_key
from ottla.client.errors import ClientError, Unreachable, check_in_kafkas_words, in_kafkas_words
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import share_groups as messages
from ottla.protocol.messages.groups import DeleteGroupsRequest, DeleteGroupsResponse

_STATE_IS_LOST = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT})


@dataclass(frozen=True, slots=True)
class ShareMember:
    consumer_id: str
    client_id: str
    host: str
    epoch: int
    partitions: list[Partition]


@dataclass(frozen=True, slots=True)
class ShareGroup:
    group: str
    state: str
    epoch: int
    assignment_epoch: int
    coordinator: Node
    members: list[ShareMember]


@dataclass(frozen=True, slots=True)
class SharePosition:
    """A group's position in a partition; None until a member has read from it."""

    topic: str
    partition: int
    start_offset: int | None
    leader_epoch: int | None
    lag: int | None


def describe_share_group(cluster: Cluster, group: str) -> ShareGroup:
    """Fails with GROUP_ID_NOT_FOUND for a missing group or another type."""

    def ask(connection: Connection, node: Node) -> ShareGroup:
        request = messages.ShareGroupDescribeRequest(group_ids=[group])
        [found] = connection.request(request, messages.ShareGroupDescribeResponse).groups
        check_in_kafkas_words(found)
        members = [
            ShareMember(
                member.member_id,
                member.client_id,
                member.client_host,
                member.member_epoch,
                sorted(
                    (topic.topic_name, number)
                    for topic in member.assignment.topic_partitions
                    for number in topic.partitions
                ),
            )
            for member in sorted(found.members, key=lambda member: member.member_id)
        ]
        return ShareGroup(group, found.group_state, found.group_epoch, found.assignment_epoch, node, members)

    return ask_coordinator(cluster, CoordinatorType.GROUP, group, ask)


def share_positions(cluster: Cluster, group: str) -> list[SharePosition]:
    request = messages.DescribeShareGroupOffsetsRequest(
        groups=[messages.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)]
    )

    def check(answer: messages.DescribeShareGroupOffsetsResponse) -> list[SharePosition]:
        [found] = answer.groups
        check_in_kafkas_words(found)
        return sorted(
            (
                _position(topic.topic_name, each)
                for topic in found.topics
                for each in topic.partitions
                if not each.error_code
            ),
            key=lambda position: (position.topic, position.partition),
        )

    with _explained(cluster, group):
        return ask_group_coordinator(
            cluster, group, request, messages.DescribeShareGroupOffsetsResponse, check
        )


def _position(topic: str, found: messages.DescribeShareGroupOffsetsResponsePartition) -> SharePosition:
    if found.start_offset < 0:
        return SharePosition(topic, found.partition_index, None, None, None)
    epoch = found.leader_epoch if found.leader_epoch >= 0 else None
    lag = found.lag if found.lag >= 0 else None
    return SharePosition(topic, found.partition_index, found.start_offset, epoch, lag)


def move_share_group(cluster: Cluster, group: str, offsets: Mapping[Partition, int]) -> None:
    """Move the positions of an empty group."""
    topics: dict[str, messages.AlterShareGroupOffsetsRequestTopic] = {}
    for (name, number), offset in offsets.items():
        topic = topics.setdefault(name, messages.AlterShareGroupOffsetsRequestTopic(topic_name=name))
        topic.partitions.append(
            messages.AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
        )
    request = messages.AlterShareGroupOffsetsRequest(group_id=group, topics=list(topics.values()))

    def check(answer: messages.AlterShareGroupOffsetsResponse) -> None:
        check_in_kafkas_words(answer, *(each for topic in answer.responses for each in topic.partitions))

    with _explained(cluster, group, list(offsets)):
        ask_group_coordinator(cluster, group, request, messages.AlterShareGroupOffsetsResponse, check)


def forget_topics(cluster: Cluster, group: str, topics: Collection[str]) -> dict[str, ClientError | None]:
    """Delete an empty group's positions in these topics. Return the outcome for each."""
    request = messages.DeleteShareGroupOffsetsRequest(
        group_id=group,
        topics=[
            messages.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in sorted(set(topics))
        ],
    )

    def check(answer: messages.DeleteShareGroupOffsetsResponse) -> dict[str, ClientError | None]:
        check_in_kafkas_words(answer)
        return {
            each.topic_name: in_kafkas_words(each.error_code, each.error_message) if each.error_code else None
            for each in answer.responses
        }

    with _explained(cluster, group):
        return ask_group_coordinator(cluster, group, request, messages.DeleteShareGroupOffsetsResponse, check)


def delete_share_group(cluster: Cluster, group: str) -> None:
    request = DeleteGroupsRequest(groups_names=[group])
    with _explained(cluster, group):
        ask_group_coordinator(
            cluster,
            group,
            request,
            DeleteGroupsResponse,
            lambda answer: check_in_kafkas_words(*answer.results),
        )


@contextmanager
def _explained(
    cluster: Cluster, group: str, partitions: Collection[Partition] | None = None
) -> Iterator[None]:
    """Explain failures of share coordinator requests: a leaderless state partition is the likely reason."""
    try:
        yield
    except ClientError as error:
        if not isinstance(error, Unreachable) and error.code not in _STATE_IS_LOST:
            raise
        raise _lost_state(cluster, group, partitions) or error from None


def _lost_state(cluster: Cluster, group: str, partitions: Collection[Partition] | None) -> ClientError | None:
    try:
        topics = cluster.metadata([CoordinatorType.SHARE.topic]).topics
        keys = None
        if partitions is not None:
            cluster.look_up({topic for topic, _ in partitions})
            keys = [share_key(group, cluster.topic_id(topic), number) for topic, number in partitions]
    except (ClientError, KeyError):
        return None
    return lost_share_state(group, topics, keys)
