"""What groups, transactions and share state have in common: their coordinators keep state in memory, by partition of an
internal topic, and write every change of it to that topic.

How all of them store before they answer: a coordinator decides, appends the records of its decision, and answers when
they are on every in-sync replica.

- `append` raises: nothing was written. The decision is rolled back, and the client gets the error.
- `append` returns: the records are in the local log, so the decision counts, and later ones build on it. What others
  must not see before it is replicated (committed offsets, transactions) is applied when the awaitable ends.
- The awaitable raises: the client gets the error and tries again. Memory stays what the local log says; if the leader
  is lost, the next coordinator reads what was replicated.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.coordinator.runtime.state_log import KeyValue, StateLog, append_error, partition_for
from ottla.coordinator.runtime.timers import Timers
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import BatchHeader, Record

log = logging.getLogger(__name__)

T = TypeVar("T")

# While a long log is read, others have their turn after this many records.
_RECORDS_AT_ONCE = 500
_COMMIT_MARKER = b"\x00\x01"


class ProducerEpoch(NamedTuple):
    producer_id: int
    producer_epoch: int


class CoordinatorShard(ABC):
    """One partition of the topic, as far as it is in memory. While `loading`, that is only a part of it."""

    __slots__ = ("leader_epoch", "loading", "partition")

    def __init__(self, partition: int, leader_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.loading = True

    @abstractmethod
    def replay(self, header: BatchHeader, record: Record) -> None:
        """Apply a record while the partition is loaded. Raises ValueError for one that cannot be read."""

    def replay_marker(self, producer_id: int, *, commit: bool) -> None:
        """The producer's transaction ended here in the log."""
        return

    def on_loaded(self) -> None:
        """All records have been replayed: requests are served from now on."""
        return

    def on_unloaded(self) -> None:
        """Another broker leads the partition from now on."""
        return


S = TypeVar("S", bound=CoordinatorShard)


class CoordinatorRuntime(Generic[S]):
    """The partitions of one internal topic that this broker leads, and the timers and tasks of their coordinator.

    Invariant: state is in memory only while this broker leads its partition. Owner: the event loop.
    """

    def __init__(
        self,
        topic: str,
        state_log: StateLog,
        new_shard: Callable[[int, int], S],
        *,
        partition_count: int = 0,
        timers: Timers | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.topic = topic
        # The setting counts when the topic is created; then the topic does.
        self.partition_count = partition_count
        self.timers = Timers() if timers is None else timers
        self.clock = clock
        self._log = state_log
        self._new_shard = new_shard
        self._shards: dict[int, S] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[S]:
        return iter(list(self._shards.values()))

    def shard_of(self, key: str) -> S:
        """The shard that keeps a group, a transactional id or a share-partition.

        Raises KafkaError where another broker does, or the partition is not loaded yet.
        """
        if not self.partition_count:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        shard = self._shards.get(partition_for(key, self.partition_count))
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if shard.loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    def find(self, partition: int) -> S | None:
        return self._shards.get(partition)

    def is_current(self, shard: S) -> bool:
        """Does this broker still lead the partition, after something was waited for?"""
        return self._shards.get(shard.partition) is shard

    # Leadership

    async def become_leader(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition from now on: load it. Raises what keeps it from reading the partition."""
        known = self._shards.get(partition)
        if known is not None:
            if known.leader_epoch >= leader_epoch:
                return
            if not known.loading:
                known.leader_epoch = leader_epoch  # led all the time: memory is what was written
                return
        shard = self._shards[partition] = self._new_shard(partition, leader_epoch)
        replayed = 0
        try:
            async for header, records in self._log.read(partition):
                self._replay(shard, header, records)
                replayed += len(records)
                if replayed >= _RECORDS_AT_ONCE:
                    replayed = 0
                    await asyncio.sleep(0)
        except BaseException:
            if self.is_current(shard):
                del self._shards[partition]
            raise
        if self.is_current(shard):  # else another broker leads it by now, or a later load replaced this one
            shard.loading = False
            shard.on_loaded()

    def resign(self, partition: int, leader_epoch: int | None = None) -> None:
        """Another broker leads the partition, in this epoch if one is given."""
        shard = self._shards.get(partition)
        if shard is not None and (leader_epoch is None or leader_epoch >= shard.leader_epoch):
            del self._shards[partition]
            shard.on_unloaded()

    def close(self) -> None:
        for shard in self:
            self.resign(shard.partition)
        self.timers.close()
        for task in self._tasks:
            task.cancel()

    def _replay(self, shard: S, header: BatchHeader, records: Sequence[Record]) -> None:
        for record in records:
            if header.is_control:
                commit = record.key is not None and record.key[2:4] == _COMMIT_MARKER
                shard.replay_marker(header.producer_id, commit=commit)
                continue
            try:
                shard.replay(header, record)
            except ValueError as error:
                # One bad record must not take all the others of its partition with it.
                log.warning(
                    "Skipping record %d of %s-%d: %s", record.offset, self.topic, shard.partition, error
                )

    # Storing

    def append(
        self, shard: S, records: Sequence[KeyValue], producer: ProducerEpoch | None = None
    ) -> Awaitable[None] | None:
        """Write records, with a producer as part of its transaction. See the head of this module.

        None: they are on every in-sync replica. Errors, raised or awaited, are those that clients of coordinators know.
        """
        try:
            if producer is None:
                pending = self._log.append(shard.partition, records, self.clock())
            else:
                pending = self._log.append_transactional(shard.partition, records, self.clock(), *producer)
        except KafkaError as error:
            raise append_error(error) from error
        return None if pending is None else replicated(pending)

    def append_unawaited(self, shard: S, records: Sequence[KeyValue]) -> None:
        """The same, where no answer depends on it. Raises KafkaError if nothing was written."""
        self.ignore(self.append(shard, records))

    def ignore(self, pending: Awaitable[None] | None) -> None:
        """No answer depends on this append: what is in the local log will be replicated, or replaced."""
        if pending is not None:
            self.in_background(_ignoring_failure(pending))

    # Tasks and timers

    def in_background(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def every(self, interval_ms: int, duty: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def run() -> None:
            try:
                await duty()
            except KafkaError as error:
                log.warning("%s of %s failed and is tried again: %s", duty.__name__, self.topic, error)
            finally:
                self.every(interval_ms, duty)

        def start() -> None:
            self.in_background(run())

        self.timers.set(duty.__name__, interval_ms, start)


async def replicated(pending: Awaitable[None]) -> None:
    """Wait for an append; what fails is an error that clients of coordinators know."""
    try:
        await pending
    except KafkaError as error:
        raise append_error(error) from error


async def _ignoring_failure(pending: Awaitable[None]) -> None:
    try:
        await pending
    except KafkaError:
        return


def when_stored(pending: Awaitable[None] | None, result: T) -> T | Awaitable[T]:
    """The result, at once or when the append that it depends on is replicated."""
    return result if pending is None else _after(pending, result)


async def _after(pending: Awaitable[None], result: T) -> T:
    await pending
    return result
