"""Share group records in `__consumer_offsets`, byte for byte as in Kafka.

They resemble consumer group records, without epochs per partition and with the list of initialized partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from ottla.coordinator.groups.modern.consumer_state import ConsumerMember, ConsumerState, partitions_of
from ottla.coordinator.groups.modern.modern_records import RecordTypes, partition_values, put_target
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
    """State of a share group as stored in its records."""

    # Topic id → name and initialized partitions.
    initialized: dict[bytes, tuple[str, frozenset[int]]] = field(default_factory=dict)

    def copy(self) -> Self:
        return replace(
            self,
            members=dict(self.members),
            regexes=dict(self.regexes),
            targets=dict(self.targets),
            initialized=dict(self.initialized),
        )


def _metadata(member: ConsumerMember) -> bytes:
    return encode_value(
        ShareMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=list(member.topics),
        )
    )


def _current(member: ConsumerMember) -> bytes:
    return encode_value(
        ShareCurrentMemberValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            assigned_partitions=partition_values(partitions_of(member.assigned)),
        )
    )


_TYPES = RecordTypes(
    GROUP_METADATA,
    MEMBER_METADATA,
    TARGET_METADATA,
    TARGET_MEMBER,
    CURRENT_MEMBER,
    ShareGroupMetadataValue,
    _metadata,
    _current,
)


def share_difference(group_id: str, old: ShareGroupState, new: ShareGroupState) -> list[KeyValue]:
    initialized: list[KeyValue] = []
    if old.initialized != new.initialized:
        initialized.append((group_key(STATE_PARTITIONS, group_id), encode_value(_state_partitions(new))))
    return list(_TYPES.difference(group_id, old, new, after_group=initialized))


def share_tombstones(group_id: str, state: ShareGroupState) -> list[KeyValue]:
    keys = [member_key(CURRENT_MEMBER, group_id, member_id) for member_id in state.members]
    keys += [member_key(TARGET_MEMBER, group_id, member_id) for member_id in state.targets]
    keys += [member_key(MEMBER_METADATA, group_id, member_id) for member_id in state.members]
    keys += [group_key(kind, group_id) for kind in (TARGET_METADATA, STATE_PARTITIONS, GROUP_METADATA)]
    return [(key, None) for key in keys]


def apply_share(state: ShareGroupState, kind: int, key: bytes, value: bytes | None) -> None:
    """Apply a record to the state. Raises ValueError for a malformed record."""
    if _TYPES.apply_to_group(state, kind, value):
        return
    if kind == STATE_PARTITIONS:
        kept = StatePartitionsValue() if value is None else decode_value(StatePartitionsValue, value)
        state.initialized = {
            topic.topic_id: (topic.topic_name, frozenset(topic.partitions))
            for topic in kept.initialized_topics
        }
        return
    member_id = decode_key(MemberKey, key).member_id
    member = state.members.get(member_id) or ConsumerMember(member_id)
    if kind == TARGET_MEMBER:
        put_target(state, member_id, value)
    elif kind == MEMBER_METADATA:
        if value is None:
            state.members.pop(member_id, None)
            return
        metadata = decode_value(ShareMemberMetadataValue, value)
        state.members[member_id] = replace(
            member,
            rack_id=metadata.rack_id,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            topics=tuple(metadata.subscribed_topic_names),
        )
    elif value is not None or member_id in state.members:
        current = ShareCurrentMemberValue() if value is None else decode_value(ShareCurrentMemberValue, value)
        state.members[member_id] = replace(
            member,
            epoch=current.member_epoch,
            previous_epoch=current.previous_member_epoch,
            assigned={p.topic_id: dict.fromkeys(p.partitions, 0) for p in current.assigned_partitions},
        )


def _state_partitions(state: ShareGroupState) -> StatePartitionsValue:
    return StatePartitionsValue(
        initialized_topics=[
            TopicPartitionsInfo(topic_id=topic_id, topic_name=name, partitions=sorted(partitions))
            for topic_id, (name, partitions) in sorted(state.initialized.items())
        ]
    )
