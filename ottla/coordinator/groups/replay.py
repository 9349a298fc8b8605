"""Rebuild groups and offsets from the records of one `__consumer_offsets` partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.coordinator.groups.base.base_group import Group
from ottla.coordinator.groups.base.committed_offsets import (
    CommittedOffset,
    GroupOffsets,
    OffsetKey,
    PendingOffsets,
    read_offset_value,
)
from ottla.coordinator.groups.base.effects import GroupState
from ottla.coordinator.groups.classic.classic_group import ClassicGroup
from ottla.coordinator.groups.classic.group_metadata import GroupKey, GroupValue, read_group_value, read_key
from ottla.coordinator.groups.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.groups.consumer.consumer_records import CONSUMER_KINDS, GROUP_METADATA, apply
from ottla.coordinator.groups.modern.consumer_state import ConsumerState
from ottla.coordinator.groups.share_group import GROUP_METADATA as SHARE_GROUP_METADATA
from ottla.coordinator.groups.share_group import SHARE_KINDS, ShareGroup, ShareGroupState, apply_share
from ottla.coordinator.groups.streams.streams_group import StreamsGroup
from ottla.coordinator.groups.streams.streams_records import GROUP_METADATA as STREAMS_GROUP_METADATA
from ottla.coordinator.groups.streams.streams_records import STREAMS_KINDS
from ottla.coordinator.groups.streams.streams_records import apply as apply_streams
from ottla.coordinator.groups.streams.streams_state import StreamsState
from ottla.coordinator.runtime import decode_key
from ottla.protocol.internal_records import GroupKey as AnyGroupKey
from ottla.protocol.records import BatchHeader, Record

S = TypeVar("S", bound=ConsumerState | StreamsState)


class Replay:
    """Applies every record in order; `finish` then returns the groups as the last coordinator had them."""

    def __init__(
        self,
        new_group: Callable[[str], ClassicGroup],
        new_consumer_group: Callable[[str], ConsumerGroup],
        new_share_group: Callable[[str], ShareGroup],
        new_streams_group: Callable[[str], StreamsGroup],
    ) -> None:
        self._new_group = new_group
        self._new_consumer_group = new_consumer_group
        self._new_share_group = new_share_group
        self._new_streams_group = new_streams_group
        self.groups: dict[str, ClassicGroup] = {}
        # Non-classic groups during loading. The classic group of the same name holds their offsets.
        self._states: dict[str, ConsumerState] = {}
        self._share_states: dict[str, ShareGroupState] = {}
        self._streams_states: dict[str, StreamsState] = {}
        # Offsets of ongoing transactions by producer id, each with its position in the log.
        self._open: dict[int, dict[OffsetKey, tuple[int, CommittedOffset | None]]] = {}
        # Log position of the latest plain commit per offset, compared with the positions of transactional commits.
        self._positions: dict[OffsetKey, int] = {}
        # Keys repeat often, so decoded keys are cached.
        self._keys: dict[bytes, OffsetKey | GroupKey | None] = {}

    def pending_offsets(self) -> PendingOffsets:
        pending = PendingOffsets()
        for producer_id, offsets in self._open.items():
            for key, (position, offset) in offsets.items():
                overtaken = position < self._positions.get(key, -1)
                pending.add(producer_id, key, None if overtaken else offset)
        return pending

    def finish(self) -> dict[str, Group]:
        for group in self.groups.values():
            group.read_subscriptions()
        groups: dict[str, Group] = dict(self.groups)
        for group_id, state in self._states.items():
            consumer_group = groups[group_id] = self._new_consumer_group(group_id)
            consumer_group.offsets = self._offsets_of(group_id)
            consumer_group.load(state)
        for group_id, share_state in self._share_states.items():
            share_group = groups[group_id] = self._new_share_group(group_id)
            share_group.load(share_state)
        for group_id, streams_state in self._streams_states.items():
            streams_group = groups[group_id] = self._new_streams_group(group_id)
            streams_group.offsets = self._offsets_of(group_id)
            streams_group.load(streams_state)
        return groups

    def apply(self, header: BatchHeader, record: Record) -> None:
        """Apply one record. Raises ValueError if malformed."""
        if record.key is None:
            raise ValueError("it has no key")
        value = record.value
        kind = int.from_bytes(record.key[:2], "big")
        if kind in CONSUMER_KINDS:
            _replay(self._states, record, kind, kind == GROUP_METADATA, ConsumerState, apply)
            return
        if kind in SHARE_KINDS:
            is_metadata = kind == SHARE_GROUP_METADATA
            _replay(self._share_states, record, kind, is_metadata, ShareGroupState, apply_share)
            return
        if kind in STREAMS_KINDS:
            is_metadata = kind == STREAMS_GROUP_METADATA
            _replay(self._streams_states, record, kind, is_metadata, StreamsState, apply_streams)
            return
        if record.key in self._keys:
            key = self._keys[record.key]
        else:
            key = self._keys[record.key] = read_key(record.key)
        if isinstance(key, GroupKey):
            self._put_group(key.group_id, None if value is None else read_group_value(value))
        elif isinstance(key, OffsetKey):
            offset = None if value is None else read_offset_value(value)
            if header.is_transactional:
                self._open.setdefault(header.producer_id, {})[key] = (record.offset, offset)
            else:
                self._positions[key] = record.offset
                self._put_offset(key, offset)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        offsets = self._open.pop(producer_id, {})
        if not commit:
            return
        for key, (position, offset) in offsets.items():
            if position > self._positions.get(key, -1):
                self._positions[key] = position
                self._put_offset(key, offset)

    def _group(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = self._new_group(group_id)
            # The group counts as never joined until its own record is read.
            group.state_timestamp = None
        return group

    def _offsets_of(self, group_id: str) -> GroupOffsets:
        group = self.groups.get(group_id)
        return GroupOffsets() if group is None else group.offsets

    def _put_offset(self, key: OffsetKey, offset: CommittedOffset | None) -> None:
        if offset is not None:
            self._group(key.group_id).offsets.put(key.topic, key.partition, offset)
        elif key.group_id in self.groups:
            self.groups[key.group_id].offsets.remove(key.topic, key.partition)

    def _put_group(self, group_id: str, value: GroupValue | None) -> None:
        offsets = self._offsets_of(group_id)
        if value is None:
            # Offsets have their own tombstones. Offsets without one survive in a group of another type.
            self.groups.pop(group_id, None)
            if offsets:
                self._group(group_id).offsets = offsets
            return
        group = self.groups[group_id] = self._new_group(group_id)
        group.offsets = offsets
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol_name
        group.generation_id = value.generation_id
        group.state_timestamp = None if value.state_timestamp < 0 else value.state_timestamp
        for member in value.members:
            group.members.add(member)
        if value.members:
            group.state = group.previous_state = GroupState.STABLE
            if value.leader in group.members:
                group.members.leader = value.leader


def _replay(
    states: dict[str, S],
    record: Record,
    kind: int,
    is_metadata: bool,
    new_state: Callable[[], S],
    apply: Callable[[S, int, bytes, bytes | None], None],
) -> None:
    key = record.key or b""
    group_id = decode_key(AnyGroupKey, key).group_id
    if record.value is None and is_metadata:
        states.pop(group_id, None)
    elif record.value is not None or group_id in states:
        state = states.get(group_id) or new_state()
        apply(state, kind, key, record.value)
        states[group_id] = state
