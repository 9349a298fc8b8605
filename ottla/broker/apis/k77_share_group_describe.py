"""ShareGroupDescribe, key 77: describe share groups and their members (KIP-932).

Behaviour
- The response includes every requested group.

Version notes
- 1 is the only version.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.broker.requests.denied_groups import denied_groups, finish_description
from ottla.coordinator.groups.modern.subscribing_group import ModernGroupDescription
from ottla.protocol.messages.share_groups import (
    DescribedAssignment,
    DescribedGroup,
    DescribedTopicPartitions,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

SPLIT = Split("group_ids", "groups", size=16)


def handle(
    broker: Broker, request: ShareGroupDescribeRequest, context: RequestContext
) -> ShareGroupDescribeResponse:
    allowed, groups = denied_groups(context, request.group_ids, DescribedGroup)
    for description in broker.groups.share.describe(allowed):
        described = _describe(description)
        topics = [name for _, *held in description.members for named in held for name, _, _ in named]
        finish_description(context, described, topics, with_operations=request.include_authorized_operations)
        groups.append(described)
    return ShareGroupDescribeResponse(groups=groups)


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
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=sorted(member.topics),
                assignment=DescribedAssignment(
                    topic_partitions=[
                        DescribedTopicPartitions(topic_id=topic_id, topic_name=name, partitions=partitions)
                        for name, topic_id, partitions in assigned
                    ]
                ),
            )
            for member, assigned, _ in group.members
        ],
    )
