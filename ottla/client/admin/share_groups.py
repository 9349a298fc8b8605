"""Share groups: describe them, where they are in their partitions, move that, delete."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ottla.client.admin.offsets import Partition
from ottla.client.admin.routing import ask_coordinator, ask_group_coordinator
from ottla.client.cluster import Cluster, CoordinatorType, Node
from ottla.client.connection import Connection
from ottla.client.errors import ClientError, check_in_kafkas_words, in_kafkas_words
from ottla.protocol.messages import share_groups as messages
from ottla.protocol.messages.groups import DeleteGroupsRequest, DeleteGroupsResponse


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
    """Where a group is in a partition: None until a member has read from it."""

    topic: str
    partition: int
    start_offset: int | None
    leader_epoch: int | None
    lag: int | None


def describe_share_group(cluster: Cluster, group: str) -> ShareGroup:
    """Fails with GROUP_ID_NOT_FOUND for a group that does not exist or is of another type."""

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

    return ask_group_coordinator(cluster, group, request, messages.DescribeShareGroupOffsetsResponse, check)


def _position(topic: str, found: messages.DescribeShareGroupOffsetsResponsePartition) -> SharePosition:
    if found.start_offset < 0:
        return SharePosition(topic, found.partition_index, None, None, None)
    epoch = found.leader_epoch if found.leader_epoch >= 0 else None
    lag = found.lag if found.lag >= 0 else None
    return SharePosition(topic, found.partition_index, found.start_offset, epoch, lag)


def move_share_group(cluster: Cluster, group: str, offsets: Mapping[Partition, int]) -> None:
    """Let an empty group go on somewhere else."""
    topics: dict[str, messages.AlterShareGroupOffsetsRequestTopic] = {}
    for (name, number), offset in offsets.items():
        topic = topics.setdefault(name, messages.AlterShareGroupOffsetsRequestTopic(topic_name=name))
        topic.partitions.append(
            messages.AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
        )
    request = messages.AlterShareGroupOffsetsRequest(group_id=group, topics=list(topics.values()))

    def check(answer: messages.AlterShareGroupOffsetsResponse) -> None:
        check_in_kafkas_words(answer, *(each for topic in answer.responses for each in topic.partitions))

    ask_group_coordinator(cluster, group, request, messages.AlterShareGroupOffsetsResponse, check)


def forget_topics(cluster: Cluster, group: str, topics: Collection[str]) -> dict[str, ClientError | None]:
    """Delete where an empty group is in these topics; for each what came of it."""
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

    return ask_group_coordinator(cluster, group, request, messages.DeleteShareGroupOffsetsResponse, check)


def delete_share_group(cluster: Cluster, group: str) -> None:
    request = DeleteGroupsRequest(groups_names=[group])
    ask_group_coordinator(
        cluster, group, request, DeleteGroupsResponse, lambda answer: check_in_kafkas_words(*answer.results)
    )
