"""Records common to consumer groups and share groups, byte for byte as in Kafka.

A change is written as the difference between two states, in the record order of Kafka 4.3. Loading applies the records
to a state one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ottla.coordinator.groups.base.base_group import Assignment
from ottla.coordinator.groups.modern.consumer_state import ConsumerMember, ConsumerState
from ottla.coordinator.runtime import KeyValue, decode_value, encode_value, group_key, member_key
from ottla.protocol.internal_records import (
    ConsumerGroupMetadataValue,
    ShareGroupMetadataValue,
    TargetMemberValue,
    TargetMetadataValue,
    TargetPartitions,
)


class RecordTypes(NamedTuple):
    """Key versions of a group type, and its value encoders."""

    group_metadata: int
    member_metadata: int
    target_metadata: int
    target_member: int
    current_member: int
    group_value: type[ConsumerGroupMetadataValue] | type[ShareGroupMetadataValue]
    member_value: Callable[[ConsumerMember], bytes]
    current_value: Callable[[ConsumerMember], bytes]

    def difference(
        self,
        group_id: str,
        old: ConsumerState,
        new: ConsumerState,
        *,
        after_removed: Iterable[KeyValue] = (),
        after_members: Iterable[KeyValue] = (),
        after_group: Iterable[KeyValue] = (),
    ) -> Iterator[KeyValue]:
        """Yield the records that turn `old` into `new`, with type-specific records in their places."""
        for member_id in old.members:
            if member_id not in new.members:
                for kind in (self.current_member, self.target_member, self.member_metadata):
                    yield member_key(kind, group_id, member_id), None
        yield from after_removed
        changed = [
            (old.members.get(member_id), member)
            for member_id, member in new.members.items()
            if old.members.get(member_id) is not member
        ]
        for before, member in changed:
            if before is None or before.subscription() != member.subscription():
                yield member_key(self.member_metadata, group_id, member.member_id), self.member_value(member)
        yield from after_members
        if (old.epoch, old.metadata_hash) != (new.epoch, new.metadata_hash):
            metadata = self.group_value(epoch=new.epoch, metadata_hash=new.metadata_hash)
            yield group_key(self.group_metadata, group_id), encode_value(metadata)
        yield from after_group
        for member_id, target in new.targets.items():
            if member_id in new.members and old.targets.get(member_id) != target:
                value = TargetMemberValue(topic_partitions=partition_values(target))
                yield member_key(self.target_member, group_id, member_id), encode_value(value)
        if (old.target_epoch, old.target_timestamp_ms) != (new.target_epoch, new.target_timestamp_ms):
            stamp = TargetMetadataValue(
                assignment_epoch=new.target_epoch, assignment_timestamp=new.target_timestamp_ms
            )
            yield group_key(self.target_metadata, group_id), encode_value(stamp)
        for before, member in changed:
            if before is None or before.current() != member.current():
                yield member_key(self.current_member, group_id, member.member_id), self.current_value(member)

    def apply_to_group(self, state: ConsumerState, kind: int, value: bytes | None) -> bool:
        """Apply a record about the whole group; return False for any other record. Raises ValueError if malformed."""
        if kind == self.group_metadata:
            if value is not None:
                metadata = decode_value(self.group_value, value)
                state.epoch, state.metadata_hash = metadata.epoch, metadata.metadata_hash
            return True
        if kind == self.target_metadata:
            stamp = TargetMetadataValue() if value is None else decode_value(TargetMetadataValue, value)
            state.target_epoch, state.target_timestamp_ms = stamp.assignment_epoch, stamp.assignment_timestamp
            return True
        return False


def put_target(state: ConsumerState, member_id: str, value: bytes | None) -> None:
    if value is None:
        state.targets.pop(member_id, None)
    else:
        parts = decode_value(TargetMemberValue, value).topic_partitions
        state.targets[member_id] = {part.topic_id: frozenset(part.partitions) for part in parts}


def partition_values(assignment: Assignment) -> list[TargetPartitions]:
    return [
        TargetPartitions(topic_id=topic_id, partitions=sorted(partitions))
        for topic_id, partitions in sorted(assignment.items())
    ]
