"""ConsumerGroupDescribe, key 69: describe consumer groups and their members (KIP-848).

Behaviour
- The response includes every requested group: librdkafka aborts its process if one is missing.
- Partitions that a member still has to revoke are listed as its own.

Version notes
- 1 the type of each member: 0 classic, 1 consumer.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.broker.requests.denied_groups import denied_groups, finish_description
from ottla.coordinator.groups.base.base_group import NamedPartitions
from ottla.coordinator.groups.modern.subscribing_group import ModernGroupDescription
from ottla.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
    DescribedGroup,
    DescribedTopicPartitions,
    Member,
)

_CLASSIC, _CONSUMER = 0, 1


SPLIT = Split("group_ids", "groups", size=16)


def handle(
    broker: Broker, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    allowed, groups = denied_groups(context, request.group_ids, DescribedGroup)
    for description in broker.groups.consumer.describe(allowed):
        described = _describe(description)
        topics = [name for _, *held in description.members for named in held for name, _, _ in named]
        finish_description(context, described, topics, with_operations=request.include_authorized_operations)
        groups.append(described)
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(group: ModernGroupDescription) -> DescribedGroup:
    return DescribedGroup(
        error_code=group.error,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[
            Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=sorted(member.topics),
                subscribed_topic_regex=member.regex or "",
                assignment=_assignment(assigned),
                target_assignment=_assignment(target),
                member_type=_CONSUMER if member.classic is None else _CLASSIC,
            )
            for member, assigned, target in group.members
        ],
    )


def _assignment(named: NamedPartitions) -> DescribedAssignment:
    return DescribedAssignment(
        topic_partitions=[
            DescribedTopicPartitions(topic_id=topic_id, topic_name=name, partitions=partitions)
            for name, topic_id, partitions in named
        ]
    )
