"""StreamsGroupDescribe, key 89: describe streams groups, their topology and members (KIP-1071).

Behaviour
- The response includes every requested group.
- The topology has the partition counts of its internal topics, or while topics are missing the counts sent by the
  application.
- As in Kafka, tasks that a member still has to revoke are not listed as its own.

Version notes
- 0 is the only version.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.broker.requests.denied_groups import denied_groups, finish_description
from ottla.coordinator.groups.streams.streams_state import (
    StreamsGroupDescription,
    StreamsMember,
    TaskIds,
    Tasks,
)
from ottla.coordinator.groups.streams.topology import ConfiguredTopology, InternalTopic
from ottla.protocol.messages.streams_groups import (
    Assignment,
    DescribedGroup,
    DescribedSubtopology,
    DescribedTopology,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    TopicInfo,
)
from ottla.protocol.messages.streams_groups import TaskIds as DescribedTasks

SPLIT = Split("group_ids", "groups", size=16)


def handle(
    broker: Broker, request: StreamsGroupDescribeRequest, context: RequestContext
) -> StreamsGroupDescribeResponse:
    allowed, groups = denied_groups(context, request.group_ids, DescribedGroup)
    for description in broker.groups.streams.describe(allowed):
        described = _describe(description)
        topology = description.topology
        topics = () if topology is None else topology.topology.topics()
        if not finish_description(
            context, described, topics, with_operations=request.include_authorized_operations
        ):
            described.topology = None  # it names the topics
        groups.append(described)
    return StreamsGroupDescribeResponse(groups=groups)


def _describe(group: StreamsGroupDescription) -> DescribedGroup:
    return DescribedGroup(
        error_code=group.error,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=None if group.topology is None else _topology(group.topology),
        members=[_member(member, target) for member, target in group.members],
    )


def _topology(configured: ConfiguredTopology) -> DescribedTopology:
    topology = configured.topology
    return DescribedTopology(
        epoch=topology.epoch,
        subtopologies=[
            DescribedSubtopology(
                subtopology_id=sub.subtopology_id,
                source_topics=sorted(sub.source_topics),
                repartition_sink_topics=sorted(sub.repartition_sink_topics),
                state_changelog_topics=_topics(configured, sub.changelog_topics),
                repartition_source_topics=_topics(configured, sub.repartition_source_topics),
            )
            for sub in sorted(topology.subtopologies, key=lambda sub: sub.subtopology_id)
        ],
    )


def _topics(configured: ConfiguredTopology, topics: tuple[InternalTopic, ...]) -> list[TopicInfo]:
    # While topics are missing, Kafka shows the requested counts.
    known = configured.internal_topics if configured.is_ready else {}
    return [
        TopicInfo(
            name=topic.name,
            partitions=known.get(topic.name, topic).partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=key, value=value) for key, value in topic.configs],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _member(member: StreamsMember, target: Tasks) -> Member:
    described = Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        client_tags=[KeyValue(key=key, value=value) for key, value in member.client_tags],
        assignment=_assignment(member.assigned.ids()),
        target_assignment=_assignment(target),
    )
    if member.user_endpoint is not None:
        host, port = member.user_endpoint
        described.user_endpoint = Endpoint(host=host, port=port)
    return described


def _assignment(tasks: Tasks) -> Assignment:
    return Assignment(
        active_tasks=_tasks(tasks.active),
        standby_tasks=_tasks(tasks.standby),
        warmup_tasks=_tasks(tasks.warmup),
    )


def _tasks(tasks: TaskIds) -> list[DescribedTasks]:
    return [
        DescribedTasks(subtopology_id=subtopology, partitions=sorted(partitions))
        for subtopology, partitions in sorted(tasks.items())
    ]
