"""The runtime of coordinators: load, append, timers."""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ottla.protocol.codec import Data, MalformedMessage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.internal_records import GroupKey, MemberKey
from ottla.protocol.records import BatchHeader, Record

# Keys and values of the internal topics: a two-byte type or version, followed by a message.

Decoded = TypeVar("Decoded", bound=Data)


def encode_key(kind: int, key: Data) -> bytes:
    return kind.to_bytes(2, "big") + key.encode(key.versions[1])


def group_key(kind: int, group_id: str) -> bytes:
    return encode_key(kind, GroupKey(group_id=group_id))


def member_key(kind: int, group_id: str, member_id: str) -> bytes:
    return encode_key(kind, MemberKey(group_id=group_id, member_id=member_id))


def encode_value(value: Data, version: int = 0) -> bytes:
    return version.to_bytes(2, "big") + value.encode(version)


def decode_key(key_type: type[Decoded], data: bytes) -> Decoded:
    """Raises ValueError if the bytes are not a key of this type."""
    try:
        return key_type.decode(data, key_type.versions[1], 2)
    except MalformedMessage as error:
        raise ValueError(f"its key cannot be read: {error}") from None


def decode_value(value_type: type[Decoded], data: bytes) -> Decoded:
    """Raises ValueError if the bytes are not a value of this type."""
    version = int.from_bytes(data[:2], "big", signed=True)
    oldest, newest = value_type.versions
    if not oldest <= version <= newest:
        raise ValueError(f"version {version} of its value is not known")
    try:
        return value_type.decode(data, version, 2)
    except MalformedMessage as error:
        raise ValueError(f"its value cannot be read: {error}") from None


# Interface to a coordinator's internal topic, and the mapping of keys to partitions.

KeyValue = tuple[bytes, bytes | None]


class StateLog(Protocol):
    """Partitions of one internal topic led by this broker."""

    def append(self, partition: int, records: Sequence[KeyValue], now_ms: int) -> Awaitable[None] | None:
        """Append one batch with these records and this timestamp, like a producer with acks=all.

        The batch is in the local log when the call returns, so calls and log have the same order. None means that every
        in-sync replica has the batch; otherwise the awaitables finish in call order. Failures, raised or awaited, are
        KafkaErrors with the codes of Produce.
        """
        ...

    def append_transactional(
        self,
        partition: int,
        records: Sequence[KeyValue],
        now_ms: int,
        producer_id: int,
        producer_epoch: int,
    ) -> Awaitable[None] | None:
        """Append as part of a transaction: a later marker decides whether the records count."""
        ...

    def read(self, partition: int) -> AsyncIterator[tuple[BatchHeader, Sequence[Record]]]:
        """Yield every batch from the log start offset to the end, including control batches."""
        ...


def java_string_hash(text: str) -> int:
    """Return Java's `String.hashCode`: computed over UTF-16 units, signed 32 bits."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for i in range(0, len(data), 2):
        value = (31 * value + (data[i] << 8 | data[i + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


# Called with every request of every member, and the loop over characters is slow.
@lru_cache(maxsize=8_192)
def partition_for(key: str, partitions: int) -> int:
    """Return the partition for a group, transactional id or share-partition; its leader is the coordinator."""
    value = java_string_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partitions


_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def append_error(error: KafkaError) -> KafkaError:
    """Translate an append error for clients, which know coordinators but not their partitions."""
    return KafkaError(_APPEND_ERRORS.get(error.code, error.code), error.message)


# Thousands of deadlines on one heap and one event loop timer.

log = logging.getLogger(__name__)

# Tolerance in seconds: event loops may call slightly early, and floats round.
_EARLY = 0.0005


class Cancellable(Protocol):
    def cancel(self) -> None: ...


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


def _call_later(delay: float, callback: Callable[[], None]) -> Cancellable:
    return asyncio.get_running_loop().call_later(delay, callback)


class _Timer:
    __slots__ = ("callback", "deadline", "entry")

    def __init__(self, deadline: float, callback: Callable[[], None], entry: int) -> None:
        self.deadline = deadline
        self.callback = callback
        # Number of the valid heap entry; other entries with the same key are stale.
        self.entry = entry


class Timers:
    """Invariant: every timer has exactly one valid heap entry, no later than its deadline.

    Extending a deadline, as every heartbeat does, only updates a dict. The heap entry is rescheduled when it comes up.
    Owner: the event loop.
    """

    def __init__(
        self,
        clock: Callable[[], float] = _loop_time,
        call_later: Callable[[float, Callable[[], None]], Cancellable] = _call_later,
    ) -> None:
        """`clock` returns monotonic seconds; `call_later(seconds, callback)` works like the event loop's."""
        self._clock = clock
        self._call_later = call_later
        self._timers: dict[Hashable, _Timer] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._entries = 0
        self._armed: Cancellable | None = None
        self._armed_for = float("inf")

    def __len__(self) -> int:
        return len(self._timers)

    def set(self, key: Hashable, delay_ms: int, callback: Callable[[], None]) -> None:
        deadline = self._clock() + delay_ms / 1000
        timer = self._timers.get(key)
        if timer is not None and timer.deadline <= deadline:
            timer.deadline = deadline
            timer.callback = callback
            return
        self._timers[key] = _Timer(deadline, callback, self._push(deadline, key))
        if deadline < self._armed_for:
            self._arm(deadline)

    def cancel(self, key: Hashable) -> None:
        if self._timers.pop(key, None) and len(self._heap) > 64 + 4 * len(self._timers):
            self._heap = [(timer.deadline, timer.entry, key) for key, timer in self._timers.items()]
            heapq.heapify(self._heap)

    def close(self) -> None:
        self._timers.clear()
        self._heap.clear()
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None
        self._armed_for = float("inf")

    def run_due(self) -> None:
        self._armed = None
        self._armed_for = float("inf")
        now = self._clock() + _EARLY
        while self._heap and self._heap[0][0] <= now:
            _, entry, key = heapq.heappop(self._heap)
            timer = self._timers.get(key)
            if timer is None or timer.entry != entry:
                continue
            if timer.deadline > now:
                timer.entry = self._push(timer.deadline, key)
                continue
            del self._timers[key]
            try:
                timer.callback()
            except Exception:
                log.exception("the timer %s failed", key)
        if self._heap and self._heap[0][0] < self._armed_for:
            self._arm(self._heap[0][0])

    def _push(self, deadline: float, key: Hashable) -> int:
        self._entries += 1
        heapq.heappush(self._heap, (deadline, self._entries, key))
        return self._entries

    def _arm(self, deadline: float) -> None:
        if self._armed is not None:
            self._armed.cancel()
        self._armed_for = deadline
        self._armed = self._call_later(max(deadline - self._clock(), 0.0), self.run_due)


# Common runtime of the group, transaction and share coordinators. Each keeps its state in memory, by partition of an
# internal topic, and writes every change to that topic.
#
# All coordinators store before they answer: a coordinator decides, appends the records of its decision, and
# answers once every in-sync replica has them.
#
# - `append` raises: nothing was written. The coordinator rolls the decision back and returns the error to the client.
# - `append` returns: the records are in the local log, so the decision counts and later decisions build on it. State
#   that must stay invisible until replicated (committed offsets, transactions) is applied when the awaitable ends.
# - The awaitable raises: the client gets the error and retries. Memory continues to match the local log; if the leader
#   fails, the next coordinator reads the replicated records.

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
