"""The `__consumer_offsets` partitions led by this broker, and their groups.

Executes the decisions of the groups' state machines: records, responses and timers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

from ottla.coordinator.groups.base.base_group import Group, GroupConfig, Topics
from ottla.coordinator.groups.base.committed_offsets import PendingOffsets
from ottla.coordinator.groups.base.effects import Answer, CancelTimer, Effect, Persist, SetTimer, TimerKey
from ottla.coordinator.groups.classic.classic_group import ClassicGroup
from ottla.coordinator.groups.classic.group_metadata import group_key, group_value
from ottla.coordinator.groups.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.groups.modern.subscribing_group import ModernGroupDescription, SubscribingGroup
from ottla.coordinator.groups.replay import Replay
from ottla.coordinator.groups.share_group import ShareGroup
from ottla.coordinator.groups.streams.streams_group import StreamsGroup
from ottla.coordinator.runtime import CoordinatorRuntime, CoordinatorShard, KeyValue, StateLog, Timers
from ottla.metadata.nodes import GROUP_METADATA_TOPIC
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import BatchHeader, Record

log = logging.getLogger(__name__)

G = TypeVar("G", bound=Group)

# Delay before retrying a failed write after a member timed out.
_RETRY_MS = 1_000


class GroupShard(CoordinatorShard):
    """One partition of `__consumer_offsets`."""

    __slots__ = ("_replay", "_runtime", "groups", "pending_offsets")

    def __init__(self, runtime: GroupRuntime, partition: int, leader_epoch: int) -> None:
        super().__init__(partition, leader_epoch)
        self.groups: dict[str, Group] = {}
        self.pending_offsets = PendingOffsets()
        self._runtime = runtime
        self._replay = Replay(
            runtime.new_classic_group,
            runtime.new_consumer_group,
            runtime.new_share_group,
            runtime.new_streams_group,
        )

    def replay(self, header: BatchHeader, record: Record) -> None:
        self._replay.apply(header, record)

    def replay_marker(self, producer_id: int, *, commit: bool) -> None:
        self._replay.end_transaction(producer_id, commit=commit)

    def on_loaded(self) -> None:
        self.groups = self._replay.finish()
        self.pending_offsets = self._replay.pending_offsets()
        del self._replay
        for group in list(self.groups.values()):
            self._runtime.run(self, group, group.start_sessions(self._runtime.clock()))

    def on_unloaded(self) -> None:
        for group in self.groups.values():
            self._runtime.run(self, group, group.die(ErrorCode.NOT_COORDINATOR, self._runtime.clock()))


class GroupRuntime(CoordinatorRuntime[GroupShard]):
    """State and tasks shared by the components of the group coordinator. Owner: the event loop."""

    def __init__(
        self,
        config: GroupConfig,
        state_log: StateLog,
        timers: Timers | None,
        clock: Callable[[], int],
        new_uuid: Callable[[], str],
        topics: Topics,
    ) -> None:
        super().__init__(
            GROUP_METADATA_TOPIC,
            state_log,
            partial(GroupShard, self),
            partition_count=config.offsets_topic_num_partitions,
            timers=timers,
            clock=clock,
        )
        self.config = config
        self.topics = topics
        self.new_uuid = new_uuid

    def new_classic_group(self, group_id: str) -> ClassicGroup:
        return ClassicGroup(group_id, self.config, self.new_uuid, self.clock())

    def new_consumer_group(self, group_id: str) -> ConsumerGroup:
        return ConsumerGroup(group_id, self.config, self.topics, self.new_uuid)

    def new_share_group(self, group_id: str) -> ShareGroup:
        return ShareGroup(group_id, self.config, self.topics)

    def new_streams_group(self, group_id: str) -> StreamsGroup:
        return StreamsGroup(group_id, self.config, self.topics)

    def get(self, group_id: str, group_class: type[G]) -> tuple[GroupShard, G]:
        """Return the group and its shard. Raises KafkaError(GROUP_ID_NOT_FOUND) if no group of this type exists."""
        shard = self.shard_of(group_id)
        group = shard.groups.get(group_id)
        if not isinstance(group, group_class):
            problem = "not found" if group is None else f"is not a {group_class.group_type} group"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {problem}.")
        return shard, group

    def describe(
        self, group_ids: Iterable[str], group_class: type[SubscribingGroup[Any]]
    ) -> Iterator[ModernGroupDescription]:
        for group_id in group_ids:
            try:
                yield self.get(group_id, group_class)[1].describe()
            except KafkaError as error:
                yield ModernGroupDescription(group_id, error.code, error.message)

    def holds(self, shard: GroupShard, group: Group) -> bool:
        """Return True if the shard still holds this group. Check again after every await."""
        return self.is_current(shard) and shard.groups.get(group.group_id) is group

    # Executing decisions

    def store(
        self, shard: GroupShard, group: Group, records: list[KeyValue], effects: list[Effect]
    ) -> Awaitable[None] | None:
        """Write a group's decision, then execute it. Raises KafkaError without changing the group.

        Answers among the effects go out once the records are stored; the call then returns None.
        """
        if not records:
            self.run(shard, group, effects)
            return None
        classic = group.downgrade(self.clock()) if isinstance(group, ConsumerGroup) else None
        if classic is not None:
            assignments = {member.member_id: member.assignment for member in classic.members}
            value = group_value(classic, assignments)
            records = [*records, *group.tombstones(), (group_key(group.group_id), value)]
        try:
            pending = self.append(shard, records)
        except KafkaError:
            group.rollback()
            raise
        group.stored()
        shard.groups[group.group_id] = group
        if pending is not None:
            answers = [effect for effect in effects if isinstance(effect, Answer)]
            if answers:
                effects = [effect for effect in effects if not isinstance(effect, Answer)]
                self.in_background(self._answer_when_stored(pending, answers))
                pending = None
        self.run(shard, group, effects)
        if classic is not None:
            self.run(shard, group, group.die(ErrorCode.NONE, self.clock()))
            shard.groups[group.group_id] = classic
            self.run(shard, classic, classic.downgraded(self.clock()))
        return pending

    def run(self, shard: GroupShard, group: Group, effects: list[Effect]) -> None:
        appends = []
        for effect in effects:
            if isinstance(effect, SetTimer):
                key = effect.key
                self.timers.set(
                    (group.group_id, key), effect.delay_ms, partial(self._on_timer, shard, group, key)
                )
            elif isinstance(effect, Answer):
                _answer(effect)
            elif isinstance(effect, CancelTimer):
                self.timers.cancel((group.group_id, effect.key))
            else:
                appends.append(effect)
        for persist in appends:
            assert isinstance(group, ClassicGroup)
            self._persist(shard, group, persist)

    async def _answer_when_stored(self, pending: Awaitable[None], answers: list[Answer]) -> None:
        try:
            await pending
        except KafkaError as error:
            answers = [Answer(ticket, result.failed(error.code)) for ticket, result in answers]
        for answer in answers:
            _answer(answer)

    def _on_timer(self, shard: GroupShard, group: Group, key: TimerKey) -> None:
        try:
            self.ignore(self.store(shard, group, *group.on_timer(key, self.clock())))
        except KafkaError as error:
            log.warning("Cannot store group %s, trying again: %s", group.group_id, error)
            self.run(shard, group, [SetTimer(key, _RETRY_MS)])

    def _persist(self, shard: GroupShard, group: ClassicGroup, persist: Persist) -> None:
        try:
            value = group_value(group, persist.assignments)
            pending = self.append(shard, [(group_key(group.group_id), value)])
        except KafkaError as error:
            self._persisted(shard, group, persist, error.code)
        except ValueError as error:
            log.warning("Group %s does not fit into a record: %s", group.group_id, error)
            self._persisted(shard, group, persist, ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            if pending is None:
                self._persisted(shard, group, persist, ErrorCode.NONE)
            else:
                self.in_background(self._when_persisted(shard, group, persist, pending))

    async def _when_persisted(
        self, shard: GroupShard, group: ClassicGroup, persist: Persist, pending: Awaitable[None]
    ) -> None:
        error = ErrorCode.NONE
        try:
            await pending
        except KafkaError as failure:
            error = failure.code
        self._persisted(shard, group, persist, error)

    def _persisted(self, shard: GroupShard, group: ClassicGroup, persist: Persist, error: ErrorCode) -> None:
        if error:
            log.warning("Cannot store group %s: %s", group.group_id, error.name)
        self.run(shard, group, group.on_persisted(persist, error, self.clock()))


def _answer(answer: Answer) -> None:
    ticket = answer.ticket
    # The connection and its task may be gone.
    if isinstance(ticket, asyncio.Future) and not ticket.done():
        ticket.set_result(answer.result)
