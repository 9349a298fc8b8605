"""Consumer group records in `__consumer_offsets`, beyond the common ones in `modern_records`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ottla.coordinator.groups.base.effects import MemberProtocol
from ottla.coordinator.groups.modern.consumer_state import (
    ClassicProtocols,
    ConsumerMember,
    ConsumerState,
    MemberState,
    PartitionEpochs,
    ResolvedRegex,
)
from ottla.coordinator.groups.modern.modern_records import RecordTypes, put_target
from ottla.coordinator.runtime import (
    KeyValue,
    decode_key,
    decode_value,
    encode_value,
    group_key,
    member_key,
)
from ottla.protocol.internal_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerCurrentMemberValue,
    ConsumerGroupMetadataValue,
    ConsumerMemberMetadataValue,
    CurrentPartitions,
    MemberKey,
    RegularExpressionValue,
)

GROUP_METADATA = 3
PARTITION_METADATA = 4  # until Kafka 4.0; a hash in the group metadata replaced it
MEMBER_METADATA = 5
TARGET_METADATA = 6
TARGET_MEMBER = 7
CURRENT_MEMBER = 8
REGULAR_EXPRESSION = 16

CONSUMER_KINDS = frozenset(
    (
        GROUP_METADATA,
        PARTITION_METADATA,
        MEMBER_METADATA,
        TARGET_METADATA,
        TARGET_MEMBER,
        CURRENT_MEMBER,
        REGULAR_EXPRESSION,
    )
)


# Writing


def difference(group_id: str, old: ConsumerState, new: ConsumerState) -> list[KeyValue]:
    unused = [
        (member_key(REGULAR_EXPRESSION, group_id, regex), None)
        for regex in old.regexes
        if regex not in new.regexes
    ]
    resolved = [
        (member_key(REGULAR_EXPRESSION, group_id, regex), _regex(found))
        for regex, found in new.regexes.items()
        if old.regexes.get(regex) != found
    ]
    records = _TYPES.difference(group_id, old, new, after_removed=unused, after_members=resolved)
    return list(records)


def tombstones(group_id: str, state: ConsumerState) -> list[KeyValue]:
    keys = [member_key(CURRENT_MEMBER, group_id, member_id) for member_id in state.members]
    keys += [member_key(TARGET_MEMBER, group_id, member_id) for member_id in state.targets]
    keys.append(group_key(TARGET_METADATA, group_id))
    keys += [member_key(MEMBER_METADATA, group_id, member_id) for member_id in state.members]
    keys += [member_key(REGULAR_EXPRESSION, group_id, regex) for regex in state.regexes]
    keys.append(group_key(GROUP_METADATA, group_id))
    return [(key, None) for key in keys]


def _regex(found: ResolvedRegex) -> bytes:
    return encode_value(
        RegularExpressionValue(
            topics=sorted(found.topics), version=found.version, timestamp=found.timestamp_ms
        )
    )


def _metadata(member: ConsumerMember) -> bytes:
    value = ConsumerMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        # Kafka stores a missing pattern as an empty string.
        subscribed_topic_regex=member.regex or "",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
    )
    if member.classic is None:
        # Kafka writes the null tagged field explicitly.
        return encode_value(value)[:-1] + b"\x01\x00\x01\x00"
    value.classic_member_metadata = ClassicMemberMetadata(
        session_timeout_ms=member.classic.session_timeout_ms,
        supported_protocols=[
            ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.classic.protocols
        ],
    )
    return encode_value(value)


def _current(member: ConsumerMember) -> bytes:
    value = ConsumerCurrentMemberValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_held(member.assigned),
        partitions_pending_revocation=_held(member.revoking),
    )
    return encode_value(value)


def _held(held: PartitionEpochs) -> list[CurrentPartitions]:
    parts = []
    for topic_id, epochs in sorted(held.items()):
        partitions = sorted(epochs)
        parts.append(
            CurrentPartitions(
                topic_id=topic_id, partitions=partitions, assignment_epochs=[epochs[p] for p in partitions]
            )
        )
    return parts


_TYPES = RecordTypes(
    GROUP_METADATA,
    MEMBER_METADATA,
    TARGET_METADATA,
    TARGET_MEMBER,
    CURRENT_MEMBER,
    ConsumerGroupMetadataValue,
    _metadata,
    _current,
)


# Reading


def apply(state: ConsumerState, kind: int, key: bytes, value: bytes | None) -> None:
    """Apply a record to the state. Raises ValueError for a malformed record."""
    if kind == PARTITION_METADATA or _TYPES.apply_to_group(state, kind, value):
        return
    member_id = decode_key(MemberKey, key).member_id
    if kind == TARGET_MEMBER:
        put_target(state, member_id, value)
    elif kind == MEMBER_METADATA:
        if value is None:
            state.members.pop(member_id, None)
        else:
            _put_metadata(state, member_id, decode_value(ConsumerMemberMetadataValue, value))
    elif kind == CURRENT_MEMBER:
        if value is not None:
            _put_current(state, member_id, decode_value(ConsumerCurrentMemberValue, value))
        elif member_id in state.members:
            _put_current(state, member_id, ConsumerCurrentMemberValue())
    elif value is None:
        state.regexes.pop(member_id, None)
    else:
        names = decode_value(RegularExpressionValue, value)
        state.regexes[member_id] = ResolvedRegex(frozenset(names.topics), names.version, names.timestamp)


def _put_metadata(state: ConsumerState, member_id: str, value: ConsumerMemberMetadataValue) -> None:
    classic = None
    if value.classic_member_metadata is not None:
        protocols = value.classic_member_metadata.supported_protocols
        classic = ClassicProtocols(
            value.classic_member_metadata.session_timeout_ms,
            tuple(MemberProtocol(p.name, bytes(p.metadata)) for p in protocols),
        )
    state.members[member_id] = replace(
        state.members.get(member_id) or ConsumerMember(member_id),
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=tuple(value.subscribed_topic_names),
        regex=value.subscribed_topic_regex or None,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=classic,
    )


def _put_current(state: ConsumerState, member_id: str, value: ConsumerCurrentMemberValue) -> None:
    known = {code.value for code in MemberState}
    state.members[member_id] = replace(
        state.members.get(member_id) or ConsumerMember(member_id),
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state if value.state in known else MemberState.UNKNOWN),
        assigned=_read_held(value.assigned_partitions, value.member_epoch),
        revoking=_read_held(value.partitions_pending_revocation, value.member_epoch),
    )


def _read_held(parts: list[CurrentPartitions], epoch: int) -> PartitionEpochs:
    held: dict[bytes, Mapping[int, int]] = {}
    for part in parts:
        # Records before Kafka 4.3 carry no assignment epochs.
        epochs = part.assignment_epochs or [epoch] * len(part.partitions)
        held[part.topic_id] = dict(zip(part.partitions, epochs, strict=False))
    return held
