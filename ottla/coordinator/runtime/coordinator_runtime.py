"""Common runtime of the group, transaction and share coordinators. Each keeps its state in memory, by partition of an
internal topic, and writes every change to that topic.

All coordinators store before they answer: a coordinator decides, appends the records of its decision, and answers once
every in-sync replica has them.

- `append` raises: nothing was written. The coordinator rolls the decision back and returns the error to the client.
- `append` returns: the records are in the local log, so the decision counts and later decisions build on it. State that
  must stay invisible until replicated (committed offsets, transactions) is applied when the awaitable ends.
- The awaitable raises: the client gets the error and retries. Memory continues to match the local log; if the leader
  fails, the next coordinator reads the replicated records.
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

# While reading a long log, yield to other tasks after this many records.
_RECORDS_AT_ONCE = 500
_COMMIT_MARKER = b"\x00\x01"


class ProducerEpoch(NamedTuple):
    producer_id: int
    producer_epoch: int


class CoordinatorShard(ABC):
    """In-memory state of one partition of the topic; incomplete while `loading`."""

    __slots__ = ("leader_epoch", "loading", "partition")

    def __init__(self, partition: int, leader_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.loading = True

    @abstractmethod
    def replay(self, header: BatchHeader, record: Record) -> None:
        """Apply a record while the partition loads. Raises ValueError if malformed."""

    def replay_marker(self, producer_id: int, *, commit: bool) -> None:
        """Handle the end of the producer's transaction at this position in the log."""
        return

    def on_loaded(self) -> None:
        """Called after the last record was replayed, before the shard serves requests."""
        return

    def on_unloaded(self) -> None:
        """Called when another broker takes over the partition."""
        return


S = TypeVar("S", bound=CoordinatorShard)


class CoordinatorRuntime(Generic[S]):
    """Partitions of one internal topic led by this broker, with the coordinator's timers and tasks.

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
        # The setting applies until the topic exists; from then on its actual partition count does.
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
        """Return the shard for a group, transactional id or share-partition.

        Raises KafkaError if another broker coordinates it or the partition is still loading.
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
        """Return True if this broker still leads the partition. Check again after every await."""
        return self._shards.get(shard.partition) is shard

    # Leadership

    async def become_leader(self, partition: int, leader_epoch: int) -> None:
        """Load the partition after becoming its leader. Raises the error that stopped reading."""
        known = self._shards.get(partition)
        if known is not None:
            if known.leader_epoch >= leader_epoch:
                return
            if not known.loading:
                known.leader_epoch = leader_epoch  # the broker led throughout, so memory matches the log
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
        if self.is_current(shard):  # otherwise another broker leads it, or a later load replaced this one
            shard.loading = False
            shard.on_loaded()

    def resign(self, partition: int, leader_epoch: int | None = None) -> None:
        """Unload the partition because another broker leads it, in `leader_epoch` if given."""
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
                # One bad record must not discard the rest of the partition.
                log.warning(
                    "Skipping record %d of %s-%d: %s", record.offset, self.topic, shard.partition, error
                )

    # Storing

    def append(
        self, shard: S, records: Sequence[KeyValue], producer: ProducerEpoch | None = None
    ) -> Awaitable[None] | None:
        """Append records, as part of a transaction if `producer` is given. See the module docstring.

        None means that every in-sync replica has the records. All errors, raised or awaited, are valid for clients of
        coordinators.
        """
        try:
            if producer is None:
                pending = self._log.append(shard.partition, records, self.clock())
            else:
                pending = self._log.append_transactional(shard.partition, records, self.clock(), *producer)
        except KafkaError as error:
            raise append_error(error) from error
        return None if pending is None else replicated(pending)

    def ignore(self, pending: Awaitable[None] | None) -> None:
        """Let an append finish in the background, since no response depends on it."""
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
    """Wait for an append and translate failures to coordinator errors."""
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
    """Return the result now, or an awaitable for it while its append is being replicated."""
    return result if pending is None else _after(pending, result)


async def _after(pending: Awaitable[None], result: T) -> T:
    await pending
    return result
