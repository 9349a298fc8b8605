"""A share-partition on its leader: record delivery, lock timeouts and persistent state."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.fetch.delayed_fetch import PartitionReader
from ottla.broker.remote_log.remote_reads import (
    RemoteRecords,
    read_remote,
    remote_offset_for_timestamp,
    retrieve,
)
from ottla.broker.share.dead_letters import AT_ONCE, DeadLetterWriter, dead_letter_topic
from ottla.broker.share.state_persister import WRITE, StatePersister
from ottla.coordinator.share.share_coordinator import UNINITIALIZED, ShareKey, state_batches
from ottla.coordinator.share.share_partition import (
    Acknowledgement,
    AcknowledgeType,
    AcquiredBatch,
    Acquisition,
    Change,
    DeliveryRules,
    SharePartition,
    StateBatch,
    Undelivered,
)
from ottla.log.batch import BatchScan
from ottla.log.files.descriptors import EMPTY_REGION, FileRegion, in_memory
from ottla.metadata.configs.config_defs import Value
from ottla.metadata.configs.group_configs import (
    AUTO_OFFSET_RESET,
    DELIVERY_COUNT_LIMIT,
    ISOLATION_LEVEL,
    PARTITION_MAX_RECORD_LOCKS,
    RECORD_LOCK_DURATION,
    RENEW_ACKNOWLEDGE_ENABLE,
    group_int,
    group_value,
    parse_offset_reset,
)
from ottla.protocol.batch_header import BatchHeader
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages import share_state

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.cluster.partitions.partition import Partition
    from ottla.cluster.partitions.purgatory import Watcher
    from ottla.log.segments.index import AbortedTransaction

logger = logging.getLogger(__name__)

# Maximum bytes per response: the event loop reads every batch header.
_MOST_BYTES = 4 * 1024 * 1024
_FENCED = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH, ErrorCode.INVALID_REQUEST)
_MEMBER_ERRORS = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    **dict.fromkeys(_FENCED, ErrorCode.NOT_LEADER_OR_FOLLOWER),
}


def for_member(error: KafkaError) -> KafkaError:
    """Translate an error of the share coordinator for members, which do not know share coordinators."""
    return KafkaError(_MEMBER_ERRORS.get(error.code, error.code), error.message)


async def first_offset(broker: Broker, group_id: str, partition: Partition) -> int:
    configs = broker.image.group_configs.get(group_id, {})
    reset = parse_offset_reset(str(group_value(broker.config, configs, AUTO_OFFSET_RESET)))
    log = partition.log
    if reset == "earliest":
        return log.log_start_offset
    if isinstance(reset, int):
        since, upto = broker.now_ms() - reset, partition.high_watermark
        found = None
        if broker.remote_log is not None and log.is_tiered:
            found = await remote_offset_for_timestamp(broker.remote_log, partition, since, upto)
        if found is None:
            found = await asyncio.to_thread(log.offset_for_timestamp, since, upto)
        if found is not None:
            return found[0]
    return partition.high_watermark


class Handed(NamedTuple):
    records: FileRegion
    acquired: list[AcquiredBatch]


class _Write:
    """A change being written to the coordinator, and its waiting caller."""

    __slots__ = ("anyway", "change", "error", "future")

    def __init__(self, change: Change, *, anyway: bool) -> None:
        self.change = change
        self.anyway = anyway  # apply even if the write fails
        self.future: asyncio.Future[None] | None = None
        self.error: KafkaError | None = None

    def finish(self, error: KafkaError | None) -> None:
        self.error = error
        if self.future is not None and not self.future.done():
            if error is None:
                self.future.set_result(None)
            else:
                self.future.set_exception(error)
                self.future.exception()  # the client may be gone


class LiveSharePartition:
    """A share-partition that writes each state change before anyone can see it, one write at a time.

    Invariant: decided but unwritten changes are in `_writing` or `_queued`, and records without their dead letters in
    `_undelivered` or in the hands of `_burying`. Owner: the event loop.
    """

    def __init__(
        self,
        broker: Broker,
        persister: StatePersister,
        dead_letters: DeadLetterWriter,
        key: ShareKey,
        partition: Partition,
        found: share_state.ReadStatePartitionResult,
        first_offset: int,
    ) -> None:
        """`first_offset` is the start offset of a group without state."""
        self.key = key
        self.partition = partition
        self.watchers: set[Watcher] = set()  # fetches that wait for locked records
        self.on_fenced: Callable[[LiveSharePartition], None] | None = None
        self._broker = broker
        self._persister = persister
        self._dead_letters = dead_letters
        self._leader_epoch = partition.leader_epoch
        self._state_epoch = found.state_epoch
        self._timer: asyncio.TimerHandle | None = None
        self._queued: list[_Write] = []
        self._archived: list[StateBatch] = []  # written together with the next change
        self._writing: list[_Write] = []
        self._task: asyncio.Task[None] | None = None
        self._burying: asyncio.Task[None] | None = None
        self._ended = False
        self._handed_over = False
        # Offset and read of the next records, while they are in remote storage only.
        self._remote: tuple[int, asyncio.Task[RemoteRecords]] | None = None
        if found.start_offset == UNINITIALIZED:
            self.share = SharePartition(first_offset)
        else:
            self.share = SharePartition(found.start_offset, state_batches(found.state_batches))
        self._undelivered: list[Undelivered] = self.share.undelivered()
        self._bury()

    def is_of(self, partition: Partition) -> bool:
        return self.partition is partition and self._leader_epoch == partition.leader_epoch

    @property
    def lock_ms(self) -> int:
        return self._own_int(RECORD_LOCK_DURATION)

    def is_cold(self, reader: PartitionReader) -> bool:
        """Return True if `hand_out` would have to wait for the disk."""
        if self.share.next_offset >= self.partition.high_watermark:
            return False
        return reader.is_cold(self.partition, self.share.next_offset, _MOST_BYTES)

    def remote_read(self) -> asyncio.Task[RemoteRecords] | None:
        """Return the read of the next records if they are in remote storage only, else None."""
        manager, log, offset = self._broker.remote_log, self.partition.log, self.share.next_offset
        if manager is None or not log.log_start_offset <= offset < log.local_start_offset:
            self._remote = None
            return None
        if self._remote is None or self._remote[0] != offset:
            read = read_remote(manager, self.partition, offset, _MOST_BYTES, with_aborted=True)
            task = self._broker.loop.create_task(read)
            task.add_done_callback(retrieve)
            self._remote = offset, task
        return self._remote[1]

    def _read(
        self, reader: PartitionReader, offset: int, upto: int, *, committed_only: bool
    ) -> tuple[FileRegion, list[AbortedTransaction]]:
        task = self.remote_read()
        if task is None:
            region = reader.read(self.partition, offset, _MOST_BYTES, upto=upto)
            return region, self.partition.log.aborted_transactions(offset, region) if committed_only else []
        if not task.done():
            return EMPTY_REGION, []
        self._remote = None
        found = task.result()
        reader.take(len(found.data))
        return in_memory(found.data), found.aborted if committed_only else []

    def hand_out(
        self, member_id: str, reader: PartitionReader, most: int, *, batch_size: int, strict: bool
    ) -> Handed:
        share, log = self.share, self.partition.log
        share.log_starts_at(log.log_start_offset)
        committed_only = self._own(ISOLATION_LEVEL) == "read_committed"
        upto = self.partition.last_stable_offset if committed_only else self.partition.high_watermark
        most = min(most, self._lock_limit - share.locked)
        first = share.next_offset
        if most <= 0 or first >= upto:
            return Handed(EMPTY_REGION, [])
        region, aborted = self._read(reader, first, upto, committed_only=committed_only)
        wanted = Acquisition(
            member_id,
            most,
            self._broker.now_ms() + self.lock_ms,
            self._count_limit,
            batch_size=batch_size,
            strict=strict,
        )
        start = end = region.position
        for position, header in BatchScan(region.fd, start, start + region.size, check_crc=False):
            if not wanted.may_go_on_at(first):
                break
            if not share.skip_to(header.base_offset):
                break
            begin, first = first, header.next_offset
            if aborted and _is_aborted(header, aborted):
                # Need not be stored first: after a loss the next leader finds the same aborted batches.
                self._archived += share.archive(begin, header.last_offset)
                continue
            before = wanted.count
            goes_on = share.acquire(wanted, begin, header.last_offset)
            if wanted.count > before:
                end = position + header.size
            if not goes_on:
                break
        if self._archived:
            share.settle()
            if not self._writing:
                self._send()
        if wanted.taken:
            self._watch_locks()
        reader.release(region.size - (end - start))
        return Handed(FileRegion(region.file, start, end - start), wanted.taken)

    def acknowledge(self, member_id: str, batches: Sequence[Acknowledgement]) -> asyncio.Future[None] | None:
        """Apply acknowledgements; None means written. This call (without changes) or the future raises KafkaError."""
        if not self._own(RENEW_ACKNOWLEDGE_ENABLE) and any(
            AcknowledgeType.RENEW in types for _, _, types in batches
        ):
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE, "Renewing acquisition locks is not enabled for the group."
            )
        deadline_ms = self._broker.now_ms() + self.lock_ms
        change = self.share.acknowledge(member_id, batches, self._rules, deadline_ms)
        if not change:
            self._watch_locks()
            return None
        write = self._write(change, anyway=False)
        if write.error is not None:
            raise write.error
        return write.future

    def release(self, member_id: str) -> None:
        change = self.share.release(member_id, self._rules)
        if change:
            self._write(change, anyway=True)

    # Ending

    def end(self, error: ErrorCode) -> None:
        """Stop using this object. With an error unsent changes fail; otherwise they are written."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if error:
            queued, self._queued = self._queued, []
            for write in queued:
                write.finish(KafkaError(error))
            self._handed_over = True  # the next leader finds the records without dead letters in the state
            if self._burying is not None:
                self._burying.cancel()
        self._try_complete_fetches()

    @property
    def is_writing(self) -> bool:
        return self._task is not None or self._burying is not None

    async def until_stored(self) -> None:
        """Wait for a moment at which a successor can read the state."""
        self._handed_over = True
        while tasks := [task for task in (self._task, self._burying) if task is not None]:
            await asyncio.wait(tasks)

    def abandon(self) -> None:
        for task in (self._task, self._burying):
            if task is not None:
                task.cancel()

    # Internals

    @property
    def _count_limit(self) -> int:
        return self._own_int(DELIVERY_COUNT_LIMIT)

    @property
    def _rules(self) -> DeliveryRules:
        return DeliveryRules(self._count_limit, bool(dead_letter_topic(self._broker, self.key.group_id)))

    @property
    def _lock_limit(self) -> int:
        return self._own_int(PARTITION_MAX_RECORD_LOCKS)

    def _own(self, name: str) -> Value:
        return group_value(
            self._broker.config, self._broker.image.group_configs.get(self.key.group_id, {}), name
        )

    def _own_int(self, name: str) -> int:
        return group_int(
            self._broker.config, self._broker.image.group_configs.get(self.key.group_id, {}), name
        )

    # Writing

    def _write(self, change: Change, *, anyway: bool) -> _Write:
        write = _Write(change, anyway=anyway)
        self._queued.append(write)
        if not self._writing:
            self._send()
        if write in self._writing or write in self._queued:
            write.future = self._broker.loop.create_future()
        return write

    def _send(self) -> None:
        """Write all queued changes at once. With a local, unreplicated coordinator the write is complete on return."""
        self._writing, self._queued = self._queued, []
        archived, self._archived = self._archived, []
        share = self.share
        batches = [batch for write in self._writing for batch in write.change.batches] + archived
        asked = share_state.WriteStatePartitionData(
            state_epoch=self._state_epoch,
            leader_epoch=self._leader_epoch,
            start_offset=share.start_offset,
            delivery_complete_count=share.delivery_complete + sum(w.change.done for w in self._writing),
            state_batches=[
                share_state.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
                )
                for first, last, state, count in sorted(batches)
                if last >= share.start_offset
            ],
        )
        try:
            pending = self._persister.ask(WRITE, self.key, asked)
        except KafkaError as error:
            self._stored(error)
            return
        if inspect.isawaitable(pending):
            self._task = self._broker.loop.create_task(self._await(pending))
        else:
            self._stored(None)

    async def _await(self, pending: Any) -> None:
        error = None
        try:
            await pending
        except KafkaError as failure:
            error = failure
        except BaseException:
            self._stored(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
            raise
        finally:
            self._task = None
        self._stored(error)

    def _stored(self, error: KafkaError | None) -> None:
        writes, self._writing = self._writing, []
        was_full = self.share.locked >= self._lock_limit
        for write in writes:
            if error is None or write.anyway:
                write.change.commit()
                self._undelivered += write.change.undelivered
            else:
                write.change.roll_back()
            write.finish(None if error is None else for_member(error))
        if error is not None:
            logger.info("Cannot store the state of %s: %s", self.key, error)
            if error.code in _FENCED and self.on_fenced is not None:
                self.on_fenced(self)
        self.share.settle()
        self._bury()
        if not self._ended:
            self._watch_locks()
            if was_full or error is not None or any(write.change.frees for write in writes):
                self._try_complete_fetches()
        if self._queued and not self._writing:
            self._send()

    def _try_complete_fetches(self) -> None:
        for watcher in tuple(self.watchers):
            watcher.try_complete(self, 0)

    # Dead letters

    def _bury(self) -> None:
        if self._undelivered and self._burying is None and not self._handed_over:
            self._burying = self._broker.loop.create_task(self._bury_all())

    async def _bury_all(self) -> None:
        try:
            while self._undelivered and not self._handed_over:
                letters, self._undelivered = self._undelivered[:AT_ONCE], self._undelivered[AT_ONCE:]
                is_done = await self._dead_letters.write(
                    self.key, self.partition, letters, self._count_limit, lambda: not self._handed_over
                )
                change = self.share.bury(letter.offset for letter in letters)
                if is_done and change:
                    self._write(change, anyway=True)
        finally:
            self._burying = None

    # Locks

    def _watch_locks(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self.share.next_deadline()
        if deadline_ms is not None and not self._ended:
            delay = max(deadline_ms - self._broker.now_ms(), 0) / 1000
            self._timer = self._broker.loop.call_later(delay, self._expire)

    def _expire(self) -> None:
        self._timer = None
        change = self.share.expire(self._broker.now_ms(), self._rules)
        if change:
            self._write(change, anyway=True)
        self._watch_locks()


def _is_aborted(header: BatchHeader, aborted: Sequence[AbortedTransaction]) -> bool:
    return header.is_transactional and any(
        each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
        for each in aborted
    )
