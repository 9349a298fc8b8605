"""The partitions of `__consumer_offsets` that this broker leads, and the groups that live in them.

Carries out what the state machines ask for: answers, timers, appends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any

from ottla.coordinator.groups.classic.group import ClassicGroup
from ottla.coordinator.groups.config import GroupConfig
from ottla.coordinator.groups.consumer.group import ConsumerGroup
from ottla.coordinator.groups.consumer.records import tombstones
from ottla.coordinator.groups.effects import Answer, CancelTimer, Effect, Persist, SetTimer, TimerKey
from ottla.coordinator.groups.migration import to_classic
from ottla.coordinator.groups.offsets.pending_offsets import PendingOffsets, ProducerEpoch
from ottla.coordinator.groups.records import group_key, group_value
from ottla.coordinator.groups.replay import Replay
from ottla.coordinator.groups.topics import Topics
from ottla.coordinator.runtime.state_log import KeyValue, StateLog, append_error, partition_for
from ottla.coordinator.runtime.timers import Timers
from ottla.coordinator.share.group import ShareGroup
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

Group = ClassicGroup | ConsumerGroup | ShareGroup

# What could not be written when a member's time was up is tried again after this.
_RETRY_MS = 1_000
# While a long log is read, others have their turn after this many records.
_RECORDS_AT_ONCE = 500


class Shard:
    """One partition of `__consumer_offsets`: while `loading`, its groups are not known yet."""

    __slots__ = ("groups", "leader_epoch", "loading", "partition", "pending_offsets")

    def __init__(self, partition: int, leader_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.loading = True
        self.groups: dict[str, Group] = {}
        self.pending_offsets = PendingOffsets()


class Shards:
    """Invariant: a group is in memory only while this broker leads its partition. Owned by the event loop."""

    def __init__(
        self,
        config: GroupConfig,
        state_log: StateLog,
        timers: Timers,
        clock: Callable[[], int],
        new_uuid: Callable[[], str],
        topics: Topics,
    ) -> None:
        self.config = config
        self.topics = topics
        self.new_uuid = new_uuid
        self.clock = clock
        self.timers = timers
        self.partition_count = config.offsets_topic_num_partitions
        self._log = state_log
        self._by_partition: dict[int, Shard] = {}
        self._tasks: set[asyncio.Future[None]] = set()

    def __iter__(self) -> Iterator[Shard]:
        return iter(list(self._by_partition.values()))

    # Which groups are here

    def of(self, group_id: str) -> Shard:
        """The shard of a group. A KafkaError says that its groups are elsewhere or not read yet."""
        partition = partition_for(group_id, self.partition_count)
        shard = self._by_partition.get(partition)
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if shard.loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    def find(self, partition: int) -> Shard | None:
        return self._by_partition.get(partition)

    def new_group(self, group_id: str) -> ClassicGroup:
        return ClassicGroup(group_id, self.config, self.new_uuid, self.clock())

    def new_consumer_group(self, group_id: str) -> ConsumerGroup:
        return ConsumerGroup(group_id, self.config, self.topics)

    def new_share_group(self, group_id: str) -> ShareGroup:
        return ShareGroup(group_id, self.config, self.topics)

    def holds(self, shard: Shard, group: Group) -> bool:
        """Is this still the group of that name, after something was waited for?"""
        return self._by_partition.get(shard.partition) is shard and shard.groups.get(group.group_id) is group

    async def load(self, partition: int, leader_epoch: int) -> None:
        """Read a partition that this broker leads from now on. Who cannot read it knows nothing of it."""
        known = self._by_partition.get(partition)
        if known is not None:
            if known.leader_epoch >= leader_epoch:
                return
            if not known.loading:
                known.leader_epoch = leader_epoch  # led all the time: what is in memory is what was written
                return
        shard = self._by_partition[partition] = Shard(partition, leader_epoch)
        replay = Replay(self.new_group, self.new_consumer_group, self.new_share_group)
        applied = 0
        try:
            async for header, records in self._log.read(partition):
                replay.apply(header, records)
                applied += len(records)
                if applied >= _RECORDS_AT_ONCE:
                    applied = 0
                    await asyncio.sleep(0)
        except BaseException:
            if self._by_partition.get(partition) is shard:
                del self._by_partition[partition]
            raise
        if self._by_partition.get(partition) is not shard:
            return  # another broker leads it by now, or a later load replaced this one
        shard.groups = replay.finish()
        shard.pending_offsets = replay.pending_offsets()
        shard.loading = False
        for group in list(shard.groups.values()):
            self.run(shard, group, group.start_sessions(self.clock()))

    def unload(self, partition: int, leader_epoch: int | None = None) -> None:
        shard = self._by_partition.get(partition)
        if shard is None or (leader_epoch is not None and leader_epoch < shard.leader_epoch):
            return
        del self._by_partition[partition]
        for group in shard.groups.values():
            self.run(shard, group, group.die(ErrorCode.NOT_COORDINATOR, self.clock()))

    def close(self) -> None:
        for shard in self:
            self.unload(shard.partition)
        self.timers.close()
        for task in self._tasks:
            task.cancel()

    # Carrying out effects

    def run(self, shard: Shard, group: Group, effects: list[Effect]) -> None:
        appends = []
        for effect in effects:
            if isinstance(effect, SetTimer):
                key = effect.key
                self.timers.set(
                    (group.group_id, key), effect.delay_ms, partial(self._on_timer, shard, group, key)
                )
            elif isinstance(effect, Answer):
                ticket = effect.ticket
                # The connection may have gone away, and its task with it.
                if isinstance(ticket, asyncio.Future) and not ticket.done():
                    ticket.set_result(effect.result)
            elif isinstance(effect, CancelTimer):
                self.timers.cancel((group.group_id, effect.key))
            else:
                appends.append(effect)
        for persist in appends:
            assert isinstance(group, ClassicGroup)
            self._persist(shard, group, persist)

    def store(
        self, shard: Shard, group: ConsumerGroup | ShareGroup, records: list[KeyValue], effects: list[Effect]
    ) -> Awaitable[None] | None:
        """Write what a group has decided, then carry it out. Raises KafkaError with nothing changed."""
        if not records:
            self.run(shard, group, effects)
            return None
        classic = None
        if isinstance(group, ConsumerGroup) and self.config.consumer_downgrade and group.are_all_classic:
            classic = to_classic(group, self.config, self.topics, self.new_uuid, self.clock())
            assignments = {member.member_id: member.assignment for member in classic.members}
            records = [*records, *tombstones(group.group_id, group.state_now)]
            records.append((group_key(group.group_id), group_value(classic, assignments)))
        try:
            pending = self.append(shard, records)
        except KafkaError:
            group.rollback()
            raise
        group.stored()
        shard.groups[group.group_id] = group
        self.run(shard, group, effects)
        if classic is not None:
            self.run(shard, group, group.die(ErrorCode.NONE, self.clock()))
            shard.groups[group.group_id] = classic
            self.run(shard, classic, classic.downgraded(self.clock()))
        return pending

    def append(
        self, shard: Shard, records: Sequence[KeyValue], producer: ProducerEpoch | None = None
    ) -> Awaitable[None] | None:
        """With a producer the records are part of its transaction."""
        try:
            if producer is not None:
                return self._log.append_transactional(shard.partition, records, self.clock(), *producer)
            return self._log.append(shard.partition, records, self.clock())
        except KafkaError as error:
            raise KafkaError(append_error(error.code), error.message) from error

    async def committed(self, pending: Awaitable[None]) -> None:
        """Wait for an append that `append` began."""
        try:
            await pending
        except KafkaError as error:
            raise KafkaError(append_error(error.code), error.message) from error

    def in_background(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_timer(self, shard: Shard, group: Group, key: TimerKey) -> None:
        if isinstance(group, ClassicGroup):
            self.run(shard, group, group.on_timer(key, self.clock()))
            return
        try:
            pending = self.store(shard, group, *group.on_timer(key, self.clock()))
        except KafkaError as error:
            log.warning("group %s was not stored: %s", group.group_id, error)
            self.run(shard, group, [SetTimer(key, _RETRY_MS)])
        else:
            if pending is not None:
                self.in_background(self.ignore_failure(pending))

    async def ignore_failure(self, pending: Awaitable[None]) -> None:
        """For appends that nobody waits for: what is in the local log will be replicated or replaced."""
        try:
            await pending
        except KafkaError:
            return

    def _persist(self, shard: Shard, group: ClassicGroup, persist: Persist) -> None:
        try:
            value = group_value(group, persist.assignments)
            pending = self.append(shard, [(group_key(group.group_id), value)])
        except KafkaError as error:
            self._persisted(shard, group, persist, error.code)
        except ValueError as error:
            log.warning("group %s cannot be stored: %s", group.group_id, error)
            self._persisted(shard, group, persist, ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            if pending is None:
                self._persisted(shard, group, persist, ErrorCode.NONE)
            else:
                self.in_background(self._await_persisted(shard, group, persist, pending))

    async def _await_persisted(
        self, shard: Shard, group: ClassicGroup, persist: Persist, pending: Awaitable[None]
    ) -> None:
        error = ErrorCode.NONE
        try:
            await self.committed(pending)
        except KafkaError as failure:
            error = failure.code
        self._persisted(shard, group, persist, error)

    def _persisted(self, shard: Shard, group: ClassicGroup, persist: Persist, error: ErrorCode) -> None:
        if error:
            log.warning("group %s was not stored: %s", group.group_id, error.name)
        self.run(shard, group, group.on_persisted(persist, error, self.clock()))
