"""Streams groups (KIP-1071): describe them, and the lag of their tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.client.admin.groups import committed
from ottla.client.admin.offsets import Partition, available_offsets
from ottla.client.admin.routing import ask_coordinator
from ottla.client.cluster import Cluster, CoordinatorType, Node
from ottla.client.connection import Connection
from ottla.client.errors import check_in_kafkas_words
from ottla.protocol.messages import streams_groups as messages

# Partitions by subtopology.
TaskIds = dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class StreamsTasks:
    active: TaskIds
    standby: TaskIds
    warmup: TaskIds


@dataclass(frozen=True, slots=True)
class StreamsMember:
    member_id: str
    process_id: str
    client_id: str
    epoch: int
    topology_epoch: int
    is_classic: bool
    assignment: StreamsTasks
    target: StreamsTasks


@dataclass(frozen=True, slots=True)
class StreamsGroup:
    group: str
    state: str
    epoch: int
    assignment_epoch: int
    coordinator: Node
    # Source topics by subtopology.
    sources: dict[str, list[str]]
    internal_topics: list[str]
    members: list[StreamsMember]


@dataclass(frozen=True, slots=True)
class StreamsLag:
    topic: str
    partition: int
    offset: int | None
    leader_epoch: int | None
    end: int
    lag: int


def describe_streams_group(cluster: Cluster, group: str) -> StreamsGroup:
    """Fails with GROUP_ID_NOT_FOUND for a missing group or another type."""

    def ask(connection: Connection, node: Node) -> StreamsGroup:
        request = messages.StreamsGroupDescribeRequest(group_ids=[group])
        [found] = connection.request(request, messages.StreamsGroupDescribeResponse).groups
        check_in_kafkas_words(found)
        subtopologies = (found.topology and found.topology.subtopologies) or []
        sources, internal = {}, set()
        for each in subtopologies:
            repartition = [topic.name for topic in each.repartition_source_topics]
            sources[each.subtopology_id] = [*each.source_topics, *repartition]
            internal |= {*repartition, *(topic.name for topic in each.state_changelog_topics)}
        for each in subtopologies:
            internal -= set(each.source_topics)  # a source topic may serve as a changelog
        members = [
            StreamsMember(
                member.member_id,
                member.process_id,
                member.client_id,
                member.member_epoch,
                member.topology_epoch,
                member.is_classic,
                _tasks(member.assignment),
                _tasks(member.target_assignment),
            )
            for member in sorted(found.members, key=lambda member: member.member_id)
        ]
        return StreamsGroup(
            group,
            found.group_state,
            found.group_epoch,
            found.assignment_epoch,
            node,
            sources,
            sorted(internal),
            members,
        )

    return ask_coordinator(cluster, CoordinatorType.GROUP, group, ask)


def streams_lag(cluster: Cluster, group: StreamsGroup) -> list[StreamsLag]:
    """Return the lag of partitions read by active tasks. Without a committed offset the whole partition counts."""
    partitions: dict[Partition, None] = {}
    for member in group.members:
        for subtopology, numbers in member.assignment.active.items():
            for topic in group.sources.get(subtopology, ()):
                partitions.update(((topic, number), None) for number in numbers)
    positions = committed(cluster, group.group)
    starts, ends = available_offsets(cluster, partitions)
    rows = []
    for partition in sorted(partitions.keys() & starts.keys() & ends.keys()):
        position = positions.get(partition)
        end = ends[partition]
        rows.append(
            StreamsLag(
                *partition,
                None if position is None else position.offset,
                None if position is None else position.leader_epoch,
                end,
                end - (starts[partition] if position is None else position.offset),
            )
        )
    return rows


def _tasks(assignment: messages.Assignment) -> StreamsTasks:
    return StreamsTasks(
        _ids(assignment.active_tasks), _ids(assignment.standby_tasks), _ids(assignment.warmup_tasks)
    )


def _ids(parts: Iterable[messages.TaskIds]) -> TaskIds:
    return {part.subtopology_id: sorted(part.partitions) for part in parts}
