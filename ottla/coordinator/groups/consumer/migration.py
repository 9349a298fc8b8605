"""Online migration between the classic and the consumer protocol.

A classic group becomes a consumer group when the first new-protocol member joins, and turns back when the last one
leaves. Members, assignments and committed offsets survive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.groups.base.effects import GroupState
from ottla.coordinator.groups.base.group_config import GroupConfig
from ottla.coordinator.groups.base.topics import Topics
from ottla.coordinator.groups.classic.classic_group import ClassicGroup
from ottla.coordinator.groups.classic.members import CONSUMER_PROTOCOL_TYPE, Member
from ottla.coordinator.groups.consumer.classic_protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
)
from ottla.coordinator.groups.modern.consumer_state import (
    NOTHING,
    ClassicProtocols,
    ConsumerMember,
    ConsumerState,
)
from ottla.coordinator.groups.modern.target_assignment import metadata_hash
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.coordinator.groups.consumer.consumer_group import ConsumerGroup


def to_consumer(classic: ClassicGroup, config: GroupConfig, topics: Topics) -> ConsumerState:
    """Convert a classic group; its generation becomes the group epoch. Raises KafkaError."""
    problem = _why_not(classic, config)
    state = ConsumerState(epoch=classic.generation_id, target_epoch=classic.generation_id)
    if problem is None:
        try:
            for member in classic.members:
                state.members[member.member_id] = _to_consumer_member(classic, member, topics)
        except ValueError:
            problem = "the embedded consumer protocol is malformed"
    if problem is not None:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {classic.group_id} to consumer group because {problem}.",
        )
    for member_id, converted in state.members.items():
        state.targets[member_id] = {t: frozenset(held) for t, held in converted.assigned.items()}
    names = {name for converted in state.members.values() for name in converted.topics}
    state.metadata_hash = metadata_hash(t for t in map(topics.by_name, names) if t is not None)
    return state


def to_classic(group: ConsumerGroup, now_ms: int) -> ClassicGroup:
    """Convert a consumer group to the classic protocol; its members have to rejoin."""
    classic = ClassicGroup(group.group_id, group.config, group.new_uuid, now_ms)
    classic.offsets = group.offsets
    classic.protocol_type = CONSUMER_PROTOCOL_TYPE
    classic.generation_id = group.epoch
    for member in group.members.values():
        assert member.classic is not None
        version = min(int.from_bytes(member.classic.protocols[0].metadata[:2], "big"), 3)
        target = group.state_now.targets.get(member.member_id, NOTHING)
        classic.members.add(
            Member(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.classic.session_timeout_ms,
                member.classic.protocols,
                write_assignment(target, version, group.topics),
            )
        )
    classic.protocol_name = classic.members.select_protocol()
    classic.state = classic.previous_state = GroupState.STABLE
    classic.read_subscriptions()
    return classic


def _why_not(classic: ClassicGroup, config: GroupConfig) -> str | None:
    if not config.consumer_upgrade:
        return "online upgrade is disabled"
    if not classic.uses_consumer_protocol:
        return "the group does not use the consumer embedded protocol"
    if len(classic.members) > config.consumer_max_size:
        return "the group exceeds the consumer group maximum size"
    return None


def _to_consumer_member(classic: ClassicGroup, member: Member, topics: Topics) -> ConsumerMember:
    # A group chooses a protocol only with its first generation.
    name = classic.protocol_name or member.protocols[0].name
    subscription = read_subscription(member.metadata(name), topics)
    epoch = classic.generation_id
    assigned = {
        topic_id: dict.fromkeys(partitions, epoch)
        for topic_id, partitions in read_assignment(member.assignment, topics).items()
    }
    return ConsumerMember(
        member.member_id,
        member.group_instance_id,
        subscription.rack_id,
        member.client_id,
        member.client_host,
        subscription.topics,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicProtocols(member.session_timeout_ms, member.protocols),
        epoch=epoch,
        previous_epoch=epoch,
        assigned=assigned,
    )
