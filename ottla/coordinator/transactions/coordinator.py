"""The transaction coordinator, and its shard of `__transaction_state`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from ottla.coordinator.runtime import CoordinatorRuntime, CoordinatorShard, StateLog, Timers
from ottla.coordinator.transactions.transaction import (
    COMPLETE_ABORT,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    PREPARED,
    ProducerIdAndEpoch,
    TopicPartition,
    Transaction,
    TransactionState,
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_value,
)
from ottla.metadata.nodes import TRANSACTION_STATE_TOPIC
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import BatchHeader, Record

# One partition of `__transaction_state` and its transactional ids.


class TransactionalId:
    """One transactional id. Invariant: `current` is the last state written; `pending` is being written."""

    __slots__ = ("current", "is_marking", "pending", "unmarked")

    def __init__(self, current: Transaction) -> None:
        self.current = current
        self.pending: TransactionState | None = None
        # Partitions still without a marker, while a prepared transaction is ending.
        self.unmarked: frozenset[tuple[str, int]] | None = None
        self.is_marking = False  # True while other brokers have yet to answer requests for markers

    def settled(self) -> Transaction:
        """Return the current transaction. Raises KafkaError(CONCURRENT_TRANSACTIONS) during a write."""
        if self.pending is not None:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return self.current


class TransactionShard(CoordinatorShard):
    __slots__ = ("_when_loaded", "ids")

    def __init__(
        self, when_loaded: Callable[[TransactionShard], None], partition: int, leader_epoch: int
    ) -> None:
        super().__init__(partition, leader_epoch)
        self._when_loaded = when_loaded
        self.ids: dict[str, TransactionalId] = {}

    def get(self, transactional_id: str) -> TransactionalId:
        found = self.ids.get(transactional_id)
        if found is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return found

    def on_loaded(self) -> None:
        self._when_loaded(self)

    def replay(self, header: BatchHeader, record: Record) -> None:
        if record.key is None:
            raise ValueError("it has no key")
        transactional_id = read_transaction_key(record.key)
        if transactional_id is None:
            return
        if record.value is not None:
            transaction = read_transaction_value(transactional_id, record.value)
            if transaction.state is not TransactionState.DEAD:
                self.ids[transactional_id] = TransactionalId(transaction)
                return
        self.ids.pop(transactional_id, None)


# The transaction coordinator: producers and the lifecycle of their transactions.
#
# The order of writes makes an outcome final. First the decision (`PrepareCommit`, `PrepareAbort`) goes to
# `__transaction_state`, then a marker to every partition, then the completion. A new coordinator finds the
# decision when it loads the partition, and continues from there.

log = logging.getLogger(__name__)

_LONGEST_ID = 2**15 - 1  # the record key has room for this many bytes
# Delay before retrying failed markers.
_RETRY_MARKERS_MS = 100
# Maximum wait for other brokers to write their markers. The decision is stored and will reach them later, so a paused
# or disconnected broker need not delay the client or other transactions.
_MARKERS_SECONDS = 1.0
# Errors that no retry would change: the topic is deleted, or the partition knows a later epoch.
_FINAL = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
)


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Broker settings `transaction.*` and `transactional.id.*`; times are in milliseconds."""

    max_timeout_ms: int = 900_000
    allows_two_phase_commit: bool = False
    state_log_num_partitions: int = 50
    abort_timed_out_interval_ms: int = 10_000
    id_expiration_ms: int = 7 * 24 * 3_600_000
    remove_expired_interval_ms: int = 3_600_000


class Marker(NamedTuple):
    """Transaction marker: the outcome of a producer's transaction."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int


class MarkerLog(Protocol):
    """Partitions written by transactions, on any broker."""

    def write(
        self, marker: Marker, partitions: Sequence[TopicPartition]
    ) -> list[ErrorCode] | Awaitable[list[ErrorCode]]:
        """Write the marker to each partition. Return one error per partition, in order."""
        ...


class TransactionCoordinator:
    """Owner: the event loop. No method is safe to call from another thread."""

    def __init__(
        self,
        config: TransactionConfig,
        state_log: StateLog,
        markers: MarkerLog,
        new_producer_id: Callable[[], Awaitable[int]],
        *,
        timers: Timers | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._config = config
        self.runtime = CoordinatorRuntime(
            TRANSACTION_STATE_TOPIC,
            state_log,
            partial(TransactionShard, self._loaded),
            partition_count=config.state_log_num_partitions,
            timers=timers,
            clock=clock,
        )
        self._markers = markers
        self._new_producer_id = new_producer_id
        self._clock = clock

    # Lifecycle

    def _loaded(self, shard: TransactionShard) -> None:
        """Resume the transactions that the previous leader was ending."""
        self.runtime.in_background(self._end_prepared(shard))

    async def _end_prepared(self, shard: TransactionShard) -> None:
        """Runs in the background: other transactional ids must not wait for unreachable partition leaders."""
        for which in list(shard.ids.values()):
            # If a client asked first, the transaction is already ending.
            if which.current.state in PREPARED and which.pending is None and which.unmarked is None:
                if not self.runtime.is_current(shard):
                    return
                await self._write_markers(shard, which)

    def start(self) -> None:
        self.runtime.every(self._config.abort_timed_out_interval_ms, self.abort_timed_out)
        self.runtime.every(self._config.remove_expired_interval_ms, self.remove_expired)

    def close(self) -> None:
        self.runtime.close()

    # Requests. Refusals raise KafkaError.

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None = None
    ) -> ProducerIdAndEpoch:
        return (await self.init_transaction(transactional_id, timeout_ms, expected)).producer

    async def init_transaction(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None = None,
        *,
        two_phase_commit: bool = False,
        keep: bool = False,
    ) -> Transaction:
        """Start or restart a producer. `keep` leaves an ongoing transaction open, to be ended by the new producer."""
        _check_id(transactional_id)
        if (two_phase_commit or keep) and not self._config.allows_two_phase_commit:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if two_phase_commit:
            timeout_ms = NO_TIMEOUT_MS
        elif not 0 < timeout_ms <= self._config.max_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        new_id = NO_PRODUCER_ID
        while True:
            shard = self.runtime.shard_of(transactional_id)
            which = shard.ids.get(transactional_id)
            if which is None and new_id != NO_PRODUCER_ID:
                which = shard.ids[transactional_id] = TransactionalId(
                    Transaction(transactional_id, new_id, timeout_ms=timeout_ms, updated_ms=self._clock())
                )
            if which is None or (which.settled().needs_new_id(expected) and new_id == NO_PRODUCER_ID):
                new_id = await self._new_producer_id()
                continue  # re-read the state: another request may have come first
            changed = which.settled().initialise(timeout_ms, expected, new_id, self._clock(), keep=keep)
            if changed.state is PREPARE_EPOCH_FENCE:
                await self._abort_fenced(shard, which, changed)
                continue
            await _done(self._write(shard, which, changed))
            return changed

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        client_version: int,
    ) -> Awaitable[None] | None:
        """Add partitions to the transaction. None means done; otherwise the awaitable ends once they are added."""
        _check_id(transactional_id)
        shard, which = self._find(transactional_id)
        transaction = which.settled()
        changed = transaction.add_partitions(
            producer_id, producer_epoch, frozenset(partitions), client_version, self._clock()
        )
        if changed is transaction:
            return None
        return self._write(shard, which, changed)

    def verify_partition(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: TopicPartition
    ) -> ErrorCode:
        """Return NONE if the transaction includes the partition, else TRANSACTION_ABORTABLE or another error."""
        try:
            _check_id(transactional_id)
            _, which = self._find(transactional_id)
        except KafkaError as error:
            return error.code
        if which.pending in PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return which.current.check_partition(producer_id, producer_epoch, partition)

    async def end(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        client_version: int,
    ) -> ProducerIdAndEpoch:
        """Commit or abort the transaction. Return the producer id and epoch to continue with."""
        _check_id(transactional_id)
        new_id = NO_PRODUCER_ID
        while True:
            shard, which = self._find(transactional_id)
            transaction = which.settled()
            if new_id == NO_PRODUCER_ID and transaction.end_needs_new_id(client_version):
                new_id = await self._new_producer_id()
                continue
            changed = transaction.end(
                producer_id,
                producer_epoch,
                commit=commit,
                client_version=client_version,
                new_id=new_id,
                now_ms=self._clock(),
            )
            if changed is None:
                return transaction.producer
            await self._decide(shard, which, changed)
            return changed.complete(0).producer

    # Administration

    def describe(self, transactional_id: str) -> Transaction:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        found = self.runtime.shard_of(transactional_id).ids.get(transactional_id)
        if found is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return found.current

    def list_transactions(self) -> list[Transaction]:
        transactions = []
        for shard in self.runtime:
            if shard.loading:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            transactions += [which.current for which in shard.ids.values()]
        return transactions

    # Time

    async def abort_timed_out(self) -> None:
        for shard, which in self._all():
            if which.pending is None and which.current.is_timed_out(self._clock()):
                transaction = which.current
                log.info(
                    "Aborting the transaction of %s: it has run for longer than %d ms",
                    transaction.transactional_id,
                    transaction.timeout_ms,
                )
                try:
                    await self._abort_fenced(shard, which, transaction.fence())
                except KafkaError as error:
                    log.warning(
                        "Cannot abort the transaction of %s, trying again: %s",
                        transaction.transactional_id,
                        error,
                    )

    async def remove_expired(self) -> None:
        for shard, which in self._all():
            if which.pending is None and which.current.is_expired(
                self._clock(), self._config.id_expiration_ms
            ):
                await self._remove(shard, which)

    def _all(self) -> list[tuple[TransactionShard, TransactionalId]]:
        return [(shard, which) for shard in self.runtime if not shard.loading for which in shard.ids.values()]

    # Storing

    def _find(self, transactional_id: str) -> tuple[TransactionShard, TransactionalId]:
        shard = self.runtime.shard_of(transactional_id)
        return shard, shard.get(transactional_id)

    def _write(
        self, shard: TransactionShard, which: TransactionalId, changed: Transaction
    ) -> Awaitable[None] | None:
        """Make `changed` the current state. None means done; otherwise the awaitable ends once it is."""
        which.pending = changed.state
        try:
            key, value = transaction_key(changed.transactional_id), transaction_value(changed)
            pending = self.runtime.append(shard, [(key, value)])
        except BaseException:
            which.pending = None
            raise
        if pending is not None:
            # The client may disconnect in the meantime; the written record counts regardless.
            return asyncio.shield(asyncio.ensure_future(self._when_stored(which, changed, pending)))
        which.current, which.pending = changed, None
        return None

    async def _when_stored(
        self, which: TransactionalId, changed: Transaction, pending: Awaitable[None]
    ) -> None:
        try:
            await pending
            which.current = changed
        finally:
            which.pending = None

    async def _remove(self, shard: TransactionShard, which: TransactionalId) -> None:
        transactional_id = which.current.transactional_id
        which.pending = TransactionState.DEAD
        try:
            await _done(self.runtime.append(shard, [(transaction_key(transactional_id), None)]))
        finally:
            which.pending = None
        if shard.ids.get(transactional_id) is which:
            del shard.ids[transactional_id]

    # Ending

    async def _abort_fenced(
        self, shard: TransactionShard, which: TransactionalId, fenced: Transaction
    ) -> None:
        await self._decide(shard, which, fenced.abort_fenced(self._clock()))
        if which.current.state is not COMPLETE_ABORT:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)

    async def _decide(self, shard: TransactionShard, which: TransactionalId, prepared: Transaction) -> None:
        """Write the decision and complete it, even if the client no longer waits."""
        try:
            await _done(self._write(shard, which, prepared))
            await self._write_markers(shard, which)
        except asyncio.CancelledError:
            self._retry_later(shard, which)
            raise

    async def _write_markers(self, shard: TransactionShard, which: TransactionalId) -> None:
        """Write the marker to every partition of the transaction. Failed partitions are retried later."""
        if which.is_marking:
            return
        transaction = which.current
        if which.unmarked is None:
            which.unmarked = transaction.partitions
        marker = Marker(
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.state is PREPARE_COMMIT,
            shard.leader_epoch,
            transaction.client_version,
        )
        partitions = sorted(which.unmarked)
        results = self._markers.write(marker, partitions)
        if isinstance(results, list):
            await self._marked(shard, which, transaction, partitions, results)
            return
        which.is_marking = True
        others = self.runtime.in_background(
            self._marked_by_others(shard, which, transaction, partitions, results)
        )
        await asyncio.wait([others], timeout=_MARKERS_SECONDS)

    async def _marked_by_others(
        self,
        shard: TransactionShard,
        which: TransactionalId,
        transaction: Transaction,
        partitions: list[TopicPartition],
        results: Awaitable[list[ErrorCode]],
    ) -> None:
        try:
            found = await results
        except Exception:
            log.exception("Cannot write the markers of %s", transaction.transactional_id)
            found = [ErrorCode.UNKNOWN_SERVER_ERROR] * len(partitions)
        finally:
            which.is_marking = False
        await self._marked(shard, which, transaction, partitions, found)

    async def _marked(
        self,
        shard: TransactionShard,
        which: TransactionalId,
        transaction: Transaction,
        partitions: list[TopicPartition],
        results: list[ErrorCode],
    ) -> None:
        left = []
        for partition_name, error in zip(partitions, results, strict=True):
            if error in _FINAL:
                log.warning(
                    "%s-%d refused the marker of %s: %s",
                    *partition_name,
                    transaction.transactional_id,
                    error.name,
                )
            elif error:
                left.append(partition_name)
        which.unmarked = frozenset(left)
        if not left:
            try:
                await _done(self._write(shard, which, transaction.complete(self._clock())))
                which.unmarked = None
                return
            except KafkaError as error:
                log.warning(
                    "Cannot store the end of a transaction of %s: %s", transaction.transactional_id, error
                )
        self._retry_later(shard, which)

    def _retry_later(self, shard: TransactionShard, which: TransactionalId) -> None:
        self.runtime.timers.set(
            ("markers", which.current.transactional_id),
            _RETRY_MARKERS_MS,
            partial(self._retry_markers, shard, which),
        )

    def _retry_markers(self, shard: TransactionShard, which: TransactionalId) -> None:
        if not self.runtime.is_current(shard):
            return
        if which.pending is not None:
            self._retry_later(shard, which)
        elif which.current.state in PREPARED:
            self.runtime.in_background(self._write_markers(shard, which))


def states_named(names: Iterable[str]) -> tuple[set[TransactionState], list[str]]:
    by_title = {state.title: state for state in TransactionState}
    known, unknown = set(), []
    for name in names:
        if name in by_title:
            known.add(by_title[name])
        else:
            unknown.append(name)
    return known, unknown


def _check_id(transactional_id: str) -> None:
    if not transactional_id or len(transactional_id.encode()) > _LONGEST_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST)


async def _done(waiting: Awaitable[None] | None) -> None:
    if waiting is not None:
        await waiting
