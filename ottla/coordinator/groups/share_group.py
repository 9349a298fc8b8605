"""Share groups (KIP-932): the state machine of their members, and its records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from ottla.coordinator.groups.base.base_group import Assignment, Decision, GroupConfig, Topic, Topics
from ottla.coordinator.groups.base.effects import Effect
from ottla.coordinator.groups.modern.consumer_state import (
    FIRST_EPOCH,
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NOTHING,
    ConsumerGroupState,
    ConsumerMember,
    ConsumerState,
    MemberState,
    partitions_of,
)
from ottla.coordinator.groups.modern.modern_records import RecordTypes, partition_values, put_target
from ottla.coordinator.groups.modern.subscribing_group import (
    HeartbeatRequest,
    HeartbeatResult,
    SubscribingGroup,
)
from ottla.coordinator.groups.modern.target_assignment import Subscriber, assign_simple
from ottla.coordinator.runtime import (
    KeyValue,
    decode_key,
    decode_value,
    encode_value,
    group_key,
    member_key,
)
from ottla.coordinator.share.share_coordinator import ShareKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.internal_records import (
    MemberKey,
    ShareCurrentMemberValue,
    ShareGroupMetadataValue,
    ShareMemberMetadataValue,
    StatePartitionsValue,
    TopicPartitionsInfo,
)

# Share group records in `__consumer_offsets`, byte for byte as in Kafka.
#
# They resemble consumer group records, without epochs per partition and with the list of initialized partitions.

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


# The share group of KIP-932. Members share partitions, so no member revokes anything first: each heartbeat returns the
# current target.
#
# The group assigns only partitions with initialized share state. A heartbeat that subscribes to a topic starts the
# initialization in the background. A member therefore joins with nothing and receives partitions shortly afterwards.

_SHORTEST_INTERVAL_MS = 500


class ShareGroup(SubscribingGroup[ShareGroupState]):
    """Invariant: see `ModernGroup`."""

    group_type = "share"
    uses_consumer_protocol = False
    # Share coordinators keep the read position until the group is deleted.
    expires = False

    def __init__(self, group_id: str, config: GroupConfig, topics: Topics) -> None:
        super().__init__(group_id, ShareGroupState(epoch=FIRST_EPOCH), config, config.share_max_size, topics)
        # Topics version and group epoch at which all subscribed partitions had share state.
        self._complete_at: tuple[int, int] | None = None
        self._is_assigned = False  # True if the last assignment covers every assignable partition

    @property
    def state(self) -> ConsumerGroupState:
        if self.dead:
            return ConsumerGroupState.DEAD
        return ConsumerGroupState.STABLE if self.members else ConsumerGroupState.EMPTY

    @property
    def assignor(self) -> str:
        return "simple"

    def share_heartbeat(
        self, request: HeartbeatRequest, now_ms: int
    ) -> tuple[HeartbeatResult, list[KeyValue], list[Effect]]:
        """Handle a heartbeat. Raises KafkaError without changing the group."""
        try:
            if request.member_epoch == LEAVE_EPOCH:
                member = self.members.get(request.member_id)
                if member is None:
                    self.no_member(request.member_id)
                self.remove(member)
                result = HeartbeatResult(request.member_id, LEAVE_EPOCH)
            else:
                result = self._join_or_stay(request, now_ms)
        except KafkaError:
            self.rollback()
            raise
        return (result, *self.drain())

    def set_initialized(self, topic_id: bytes, name: str, partitions: frozenset[int]) -> Decision:
        """Record the partitions with reset state; an empty set means that no state is stored for the topic."""
        self._complete_at = None
        self._is_assigned = False
        initialized = self.change().initialized
        if partitions:
            self.bump_epoch()
            initialized[topic_id] = (name, self._initialized(topic_id) | partitions)
        else:
            initialized.pop(topic_id, None)
        return self.drain()

    def commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        partitions: Callable[[], Assignment] | None = None,
        *,
        knows_epochs: bool = True,
    ) -> tuple[ErrorCode, list[Effect]]:
        """Refuse the commit: share groups have no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND, []

    def check_transactional_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        partitions: Callable[[], Assignment] | None = None,
    ) -> ErrorCode:
        return ErrorCode.ILLEGAL_GENERATION

    def share_keys(self) -> list[ShareKey]:
        return [
            ShareKey(self.group_id, topic_id, partition)
            for topic_id, (_, partitions) in sorted(self.state_now.initialized.items())
            for partition in sorted(partitions)
        ]

    def state_replaced(self) -> None:
        self._complete_at = None
        self._is_assigned = False

    def uninitialized(self) -> list[tuple[bytes, int]]:
        seen = (self.topics.version, self.epoch)
        if seen == self._complete_at:
            return []
        found = []
        for topic in self._subscribed():
            known = self._initialized(topic.topic_id)
            found += [(topic.topic_id, p) for p in range(topic.partitions) if p not in known]
        if not found:
            self._complete_at = seen
        return found

    def add_initialized(self, found: Iterable[tuple[bytes, int]]) -> Decision:
        """Record newly initialized partitions; the next heartbeat assigns them."""
        self._is_assigned = False
        for topic_id, partition in found:
            topic = self.topics.by_id(topic_id)
            if topic is not None:
                known = self._initialized(topic_id)
                self.change().initialized[topic_id] = (topic.name, known | {partition})
        return self.drain()

    # Internals

    def _initialized(self, topic_id: bytes) -> frozenset[int]:
        return self.state_now.initialized.get(topic_id, ("", frozenset[int]()))[1]

    def _subscribed(self) -> Iterator[Topic]:
        names = set[str]().union(*(member.topics for member in self.members.values()))
        return filter(None, map(self.topics.by_name, sorted(names)))

    def _forget_deleted_topics(self) -> None:
        for topic_id in list(self.state_now.initialized):
            if self.topics.by_id(topic_id) is None:
                del self.change().initialized[topic_id]

    def _has_unassigned(self) -> bool:
        """Return True if partitions were initialized since the last assignment. A newer epoch assigns them anyway."""
        state = self.state_now
        if self._is_assigned or state.target_epoch < state.epoch:
            return False
        assigned: dict[bytes, set[int]] = {}
        for target in state.targets.values():
            for topic_id, partitions in target.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        self._is_assigned = all(
            assigned.get(topic.topic_id, set()).issuperset(range(self._assignable(topic.topic_id)))
            for topic in self._subscribed()
        )
        return not self._is_assigned

    def _assignable(self, topic_id: bytes) -> int:
        """Return the number of consecutive partitions with initialized state, starting at partition 0."""
        known, count = self._initialized(topic_id), 0
        while count in known:
            count += 1
        return count

    def _join_or_stay(self, request: HeartbeatRequest, now_ms: int) -> HeartbeatResult:
        known = self.members.get(request.member_id)
        if known is None:
            if request.member_epoch != JOIN_EPOCH:
                self.no_member(request.member_id)
            self.check_room()
        else:
            self._check_epoch(known, request.member_epoch)
        member = known or ConsumerMember(request.member_id)
        updated = replace(
            member,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            topics=member.topics if request.topics is None else tuple(request.topics),
            client_id=request.client_id,
            client_host=request.client_host,
        )
        if updated != member or known is None:
            self.put(updated)
        changed = known is None or set(updated.topics) != set(member.topics)
        self.refresh(now_ms, changed=changed or self._has_unassigned())
        if self.has_changed:
            self._forget_deleted_topics()
        current = self._reconcile(self.members[request.member_id])
        self.keep_session(current)
        result = HeartbeatResult(current.member_id, current.epoch, self._heartbeat_interval_ms())
        if request.topics is not None or current.assigned != member.assigned:
            result.assignment = partitions_of(current.assigned)
        return result

    def _heartbeat_interval_ms(self) -> int:
        """Return a shorter interval while an assignment is due, because the next heartbeat delivers it."""
        pace = self.pace
        if self.state_now.target_epoch == self.epoch and not self.uninitialized():
            return pace.heartbeat_interval_ms
        return min(pace.heartbeat_interval_ms, max(pace.assignment_interval_ms, _SHORTEST_INTERVAL_MS))

    def _check_epoch(self, member: ConsumerMember, epoch: int) -> None:
        if epoch not in (member.epoch, member.previous_epoch, JOIN_EPOCH):
            self.wrong_epoch(member, epoch)

    def _reconcile(self, member: ConsumerMember) -> ConsumerMember:
        state = self.state_now
        if member.epoch == state.target_epoch:
            return member
        target = state.targets.get(member.member_id, NOTHING)
        held = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in target.items()}
        updated = member.at(state.target_epoch, MemberState.STABLE, held)
        self.put(updated)
        return updated

    def assign(
        self, subscribers: Mapping[str, Subscriber], partition_counts: Mapping[bytes, int]
    ) -> dict[str, Assignment]:
        return assign_simple(
            subscribers,
            {
                topic_id: min(count, self._assignable(topic_id))
                for topic_id, count in partition_counts.items()
            },
        )

    def difference(self, before: ShareGroupState | None) -> list[KeyValue]:
        return share_difference(self.group_id, before or ShareGroupState(), self.state_now)

    def tombstones(self) -> list[KeyValue]:
        return share_tombstones(self.group_id, self.state_now)
