"""The records of a share group in `__consumer_offsets`, byte for byte Kafka's: as those of a consumer group, but
without epochs per partition, and with the list of partitions whose state is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self

from ottla.coordinator.groups.consumer.state import Assignment, ConsumerMember, ConsumerState, partitions_of
from ottla.coordinator.runtime.record_codec import (
    decode_key,
    decode_value,
    encode_value,
    group_key,
    member_key,
)
from ottla.coordinator.runtime.state_log import KeyValue
from ottla.protocol.internal_records import (
    MemberKey,
    ShareCurrentMemberValue,
    ShareGroupMetadataValue,
    ShareMemberMetadataValue,
    StatePartitionsValue,
    TargetMemberValue,
    TargetMetadataValue,
    TargetPartitions,
    TopicPartitionsInfo,
)

MEMBER_METADATA = 10
GROUP_METADATA = 11
TARGET_METADATA = 12
TARGET_MEMBER = 13
CURRENT_MEMBER = 14
STATE_PARTITIONS = 15

SHARE_KINDS = frozenset(range(MEMBER_METADATA, STATE_PARTITIONS + 1))


@dataclass(slots=True)
class ShareGroupState(ConsumerState):
    """Everything that the records of a share group say."""

    # Topic id → its name and the partitions whose state is kept.
    initialized: dict[bytes, tuple[str, frozenset[int]]] = field(default_factory=dict)

    def copy(self) -> Self:
        return replace(
            self,
            members=dict(self.members),
            regexes=dict(self.regexes),
            targets=dict(self.targets),
            initialized=dict(self.initialized),
        )


def share_difference(group_id: str, old: ShareGroupState, new: ShareGroupState) -> Iterator[KeyValue]:
    for member_id in old.members:
        if member_id not in new.members:
            yield member_key(CURRENT_MEMBER, group_id, member_id), None
            yield member_key(TARGET_MEMBER, group_id, member_id), None
            yield member_key(MEMBER_METADATA, group_id, member_id), None
    changed = [
        (old.members.get(member_id), member)
        for member_id, member in new.members.items()
        if old.members.get(member_id) is not member
    ]
    for before, member in changed:
        if before is None or before.subscription() != member.subscription():
            metadata = ShareMemberMetadataValue(
                rack_id=member.rack_id,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=list(member.topics),
            )
            yield member_key(MEMBER_METADATA, group_id, member.member_id), encode_value(metadata)
    if (old.epoch, old.metadata_hash) != (new.epoch, new.metadata_hash):
        group = ShareGroupMetadataValue(epoch=new.epoch, metadata_hash=new.metadata_hash)
        yield group_key(GROUP_METADATA, group_id), encode_value(group)
    if old.initialized != new.initialized:
        yield group_key(STATE_PARTITIONS, group_id), encode_value(_state_partitions(new))
    for member_id, target in new.targets.items():
        if member_id in new.members and old.targets.get(member_id) != target:
            value = TargetMemberValue(topic_partitions=_partitions(target))
            yield member_key(TARGET_MEMBER, group_id, member_id), encode_value(value)
    if (old.target_epoch, old.target_timestamp_ms) != (new.target_epoch, new.target_timestamp_ms):
        stamp = TargetMetadataValue(
            assignment_epoch=new.target_epoch, assignment_timestamp=new.target_timestamp_ms
        )
        yield group_key(TARGET_METADATA, group_id), encode_value(stamp)
    for before, member in changed:
        if before is None or before.current() != member.current():
            current = ShareCurrentMemberValue(
                member_epoch=member.epoch,
                previous_member_epoch=member.previous_epoch,
                state=member.state,
                assigned_partitions=_partitions(partitions_of(member.assigned)),
            )
            yield member_key(CURRENT_MEMBER, group_id, member.member_id), encode_value(current)


def share_tombstones(group_id: str, state: ShareGroupState) -> list[KeyValue]:
    keys = [member_key(CURRENT_MEMBER, group_id, member_id) for member_id in state.members]
    keys += [member_key(TARGET_MEMBER, group_id, member_id) for member_id in state.targets]
    keys += [member_key(MEMBER_METADATA, group_id, member_id) for member_id in state.members]
    keys += [group_key(kind, group_id) for kind in (TARGET_METADATA, STATE_PARTITIONS, GROUP_METADATA)]
    return [(key, None) for key in keys]


def apply_share(state: ShareGroupState, kind: int, key: bytes, value: bytes | None) -> None:
    """Raises ValueError for bytes that are not such a record."""
    if kind == GROUP_METADATA:
        if value is not None:
            metadata = decode_value(ShareGroupMetadataValue, value)
            state.epoch, state.metadata_hash = metadata.epoch, metadata.metadata_hash
    elif kind == TARGET_METADATA:
        stamp = TargetMetadataValue() if value is None else decode_value(TargetMetadataValue, value)
        state.target_epoch, state.target_timestamp_ms = stamp.assignment_epoch, stamp.assignment_timestamp
    elif kind == STATE_PARTITIONS:
        kept = StatePartitionsValue() if value is None else decode_value(StatePartitionsValue, value)
        state.initialized = {
            topic.topic_id: (topic.topic_name, frozenset(topic.partitions))
            for topic in kept.initialized_topics
        }
    else:
        _apply_to_member(state, kind, decode_key(MemberKey, key).member_id, value)


def _apply_to_member(state: ShareGroupState, kind: int, member_id: str, value: bytes | None) -> None:
    if kind == TARGET_MEMBER:
        if value is None:
            state.targets.pop(member_id, None)
        else:
            target = decode_value(TargetMemberValue, value)
            state.targets[member_id] = {p.topic_id: frozenset(p.partitions) for p in target.topic_partitions}
        return
    member = state.members.get(member_id) or ConsumerMember(member_id)
    if kind == MEMBER_METADATA:
        if value is None:
            state.members.pop(member_id, None)
            return
        metadata = decode_value(ShareMemberMetadataValue, value)
        member = replace(
            member,
            rack_id=metadata.rack_id,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            topics=tuple(metadata.subscribed_topic_names),
        )
    elif value is not None:
        current = decode_value(ShareCurrentMemberValue, value)
        member = replace(
            member,
            epoch=current.member_epoch,
            previous_epoch=current.previous_member_epoch,
            assigned={p.topic_id: dict.fromkeys(p.partitions, 0) for p in current.assigned_partitions},
        )
    elif member_id not in state.members:
        return
    else:
        member = replace(member, epoch=0, previous_epoch=0, assigned={})
    state.members[member_id] = member


def _state_partitions(state: ShareGroupState) -> StatePartitionsValue:
    return StatePartitionsValue(
        initialized_topics=[
            TopicPartitionsInfo(topic_id=topic_id, topic_name=name, partitions=sorted(partitions))
            for topic_id, (name, partitions) in sorted(state.initialized.items())
        ]
    )


def _partitions(assignment: Assignment) -> list[TargetPartitions]:
    return [
        TargetPartitions(topic_id=topic_id, partitions=sorted(partitions))
        for topic_id, partitions in sorted(assignment.items())
    ]
