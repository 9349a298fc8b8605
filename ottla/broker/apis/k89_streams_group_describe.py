"""StreamsGroupDescribe, key 89: describe streams groups, their topology and members (KIP-1071).

Behaviour
- The response includes every requested group.
- The topology has the partition counts of its internal topics, or while topics are missing the counts sent by the
  application.
- As in Kafka, tasks that a member still has to revoke are not listed as its own.

- A topology description is shown on request, if a member has sent one for the current topology (KIP-1331).

Version notes
- 0 first version; 1 topology descriptions, and the name of the assignor.
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
    TopologyDescription,
)
from ottla.protocol.messages.streams_groups import TaskIds as DescribedTasks

_NOT_REQUESTED, _NOT_STORED, _AVAILABLE = 0, 1, 3
_ASSIGNOR = "sticky"

SPLIT = Split("group_ids", "groups", size=16)


def handle(
    broker: Broker, request: StreamsGroupDescribeRequest, context: RequestContext
) -> StreamsGroupDescribeResponse:
    allowed, groups = denied_groups(context, request.group_ids, DescribedGroup)
    for description in broker.groups.streams.describe(allowed):
        described = _describe(description)
        topology = description.topology
        topics = set() if topology is None else set(topology.topology.topics())
        if request.include_topology_description and not description.error:
            _add_topology_description(described, description.topology_description)
            topics |= _topics_of(description.topology_description)
        if not finish_description(
            context, described, topics, with_operations=request.include_authorized_operations
        ):
            described.topology = described.topology_description = None  # they name the topics
            described.topology_description_status = _NOT_REQUESTED
        groups.append(described)
    return StreamsGroupDescribeResponse(groups=groups)


def _add_topology_description(described: DescribedGroup, description: TopologyDescription | None) -> None:
    described.topology_description = description
    described.topology_description_status = _NOT_STORED if description is None else _AVAILABLE


def _topics_of(description: TopologyDescription | None) -> set[str]:
    if description is None:
        return set()
    nodes = [node for each in description.subtopologies for node in each.nodes]
    nodes += [each.source for each in description.global_stores]
    return {
        topic
        for node in nodes
        for topic in (*node.source_topics, *([] if node.sink_topic is None else [node.sink_topic]))
    }


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
        assignor_name=None if group.error else _ASSIGNOR,
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
