"""The records of a consumer group in `__consumer_offsets`, byte for byte Kafka's.

A change of the group is written as the difference between two states, in the order in which Kafka 4.3 writes it;
reading applies the records one by one to a state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ottla.coordinator.groups.consumer.state import (
    Assignment,
    ClassicProtocols,
    ConsumerMember,
    ConsumerState,
    Held,
    MemberState,
    ResolvedRegex,
)
from ottla.coordinator.groups.effects import MemberProtocol
from ottla.coordinator.runtime.record_codec import (
    decode_key,
    decode_value,
    encode_value,
    group_key,
    member_key,
)
from ottla.coordinator.runtime.state_log import KeyValue
from ottla.protocol.internal_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerCurrentMemberValue,
    ConsumerGroupMetadataValue,
    ConsumerMemberMetadataValue,
    HeldPartitions,
    MemberKey,
    RegularExpressionValue,
    TargetMemberValue,
    TargetMetadataValue,
    TargetPartitions,
)

GROUP_METADATA = 3
PARTITION_METADATA = 4  # until Kafka 4.0; its successor is a hash in the group's metadata
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
    return list(_difference(group_id, old, new))


def tombstones(group_id: str, state: ConsumerState) -> list[KeyValue]:
    """What deletes a group with everything in it."""
    keys = [member_key(CURRENT_MEMBER, group_id, member_id) for member_id in state.members]
    keys += [member_key(TARGET_MEMBER, group_id, member_id) for member_id in state.targets]
    keys.append(group_key(TARGET_METADATA, group_id))
    keys += [member_key(MEMBER_METADATA, group_id, member_id) for member_id in state.members]
    keys += [member_key(REGULAR_EXPRESSION, group_id, regex) for regex in state.regexes]
    keys.append(group_key(GROUP_METADATA, group_id))
    return [(key, None) for key in keys]


def _difference(group_id: str, old: ConsumerState, new: ConsumerState) -> Iterator[KeyValue]:
    for member_id in old.members:
        if member_id not in new.members:
            yield member_key(CURRENT_MEMBER, group_id, member_id), None
            yield member_key(TARGET_MEMBER, group_id, member_id), None
            yield member_key(MEMBER_METADATA, group_id, member_id), None
    for regex in old.regexes:
        if regex not in new.regexes:
            yield member_key(REGULAR_EXPRESSION, group_id, regex), None
    changed = [
        (old.members.get(member_id), member)
        for member_id, member in new.members.items()
        if old.members.get(member_id) is not member
    ]
    for before, member in changed:
        if before is None or before.subscription() != member.subscription():
            yield member_key(MEMBER_METADATA, group_id, member.member_id), _metadata(member)
    for regex, resolved in new.regexes.items():
        if old.regexes.get(regex) != resolved:
            value = RegularExpressionValue(
                topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
            )
            yield member_key(REGULAR_EXPRESSION, group_id, regex), encode_value(value)
    if (old.epoch, old.metadata_hash) != (new.epoch, new.metadata_hash):
        metadata = ConsumerGroupMetadataValue(epoch=new.epoch, metadata_hash=new.metadata_hash)
        yield group_key(GROUP_METADATA, group_id), encode_value(metadata)
    for member_id, target in new.targets.items():
        if member_id in new.members and old.targets.get(member_id) != target:
            yield member_key(TARGET_MEMBER, group_id, member_id), encode_value(_target(target))
    if (old.target_epoch, old.target_timestamp_ms) != (new.target_epoch, new.target_timestamp_ms):
        stamp = TargetMetadataValue(
            assignment_epoch=new.target_epoch, assignment_timestamp=new.target_timestamp_ms
        )
        yield group_key(TARGET_METADATA, group_id), encode_value(stamp)
    for before, member in changed:
        if before is None or before.current() != member.current():
            yield member_key(CURRENT_MEMBER, group_id, member.member_id), encode_value(_current(member))


def _metadata(member: ConsumerMember) -> bytes:
    value = ConsumerMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        # Kafka stores a subscription without a pattern as an empty one.
        subscribed_topic_regex=member.regex or "",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
    )
    if member.classic is None:
        # Kafka says in so many words that the tagged field is null.
        return encode_value(value)[:-1] + b"\x01\x00\x01\x00"
    value.classic_member_metadata = ClassicMemberMetadata(
        session_timeout_ms=member.classic.session_timeout_ms,
        supported_protocols=[
            ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.classic.protocols
        ],
    )
    return encode_value(value)


def _target(target: Assignment) -> TargetMemberValue:
    return TargetMemberValue(
        topic_partitions=[
            TargetPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(target.items())
        ]
    )


def _current(member: ConsumerMember) -> ConsumerCurrentMemberValue:
    return ConsumerCurrentMemberValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_held(member.assigned),
        partitions_pending_revocation=_held(member.revoking),
    )


def _held(held: Held) -> list[HeldPartitions]:
    parts = []
    for topic_id, epochs in sorted(held.items()):
        partitions = sorted(epochs)
        parts.append(
            HeldPartitions(
                topic_id=topic_id, partitions=partitions, assignment_epochs=[epochs[p] for p in partitions]
            )
        )
    return parts


# Reading


def apply(state: ConsumerState, kind: int, key: bytes, value: bytes | None) -> None:
    """Raises ValueError for bytes that are not such a record."""
    if kind == GROUP_METADATA:
        if value is not None:
            metadata = decode_value(ConsumerGroupMetadataValue, value)
            state.epoch = metadata.epoch
            state.metadata_hash = metadata.metadata_hash
    elif kind == TARGET_METADATA:
        stamp = TargetMetadataValue() if value is None else decode_value(TargetMetadataValue, value)
        state.target_epoch = stamp.assignment_epoch
        state.target_timestamp_ms = stamp.assignment_timestamp
    elif kind != PARTITION_METADATA:
        _apply_to_member(state, kind, decode_key(MemberKey, key).member_id, value)


def _apply_to_member(state: ConsumerState, kind: int, member_id: str, value: bytes | None) -> None:
    if kind == MEMBER_METADATA:
        if value is None:
            state.members.pop(member_id, None)
        else:
            _put_metadata(state, member_id, decode_value(ConsumerMemberMetadataValue, value))
    elif kind == TARGET_MEMBER:
        if value is None:
            state.targets.pop(member_id, None)
        else:
            parts = decode_value(TargetMemberValue, value).topic_partitions
            state.targets[member_id] = {part.topic_id: frozenset(part.partitions) for part in parts}
    elif kind == CURRENT_MEMBER:
        current = (
            ConsumerCurrentMemberValue() if value is None else decode_value(ConsumerCurrentMemberValue, value)
        )
        if value is not None or member_id in state.members:
            _put_current(state, member_id, current)
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


def _read_held(parts: list[HeldPartitions], epoch: int) -> Held:
    held: dict[bytes, Mapping[int, int]] = {}
    for part in parts:
        # Records from before Kafka 4.3 do not say since when.
        epochs = part.assignment_epochs or [epoch] * len(part.partitions)
        held[part.topic_id] = dict(zip(part.partitions, epochs, strict=False))
    return held
