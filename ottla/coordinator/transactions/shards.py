"""The partitions of `__transaction_state` that this broker leads, and the transactional ids that live in them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator

from ottla.coordinator.runtime.state_log import StateLog, append_error, partition_for
from ottla.coordinator.transactions.records import (
    TRANSACTION_STATE_TOPIC,
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_value,
)
from ottla.coordinator.transactions.transaction import Transaction, TransactionState
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

# While a long log is read, others have their turn after this many records.
_RECORDS_AT_ONCE = 500


class TransactionalId:
    """One transactional id. Invariant: `current` is what was last written; `pending` is being written."""

    __slots__ = ("current", "is_marking", "pending", "unmarked")

    def __init__(self, current: Transaction) -> None:
        self.current = current
        self.pending: TransactionState | None = None
        # Partitions that wait for their marker, while a prepared transaction is being ended.
        self.unmarked: frozenset[tuple[str, int]] | None = None
        self.is_marking = False  # other brokers have been asked to write markers, and not all have answered

    def settled(self) -> Transaction:
        """The transaction, if nothing is being written; else the client has to come again."""
        if self.pending is not None:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return self.current


class TransactionShard:
    """One partition of `__transaction_state`: while `loading`, its ids are not known yet."""

    __slots__ = ("ids", "leader_epoch", "loading", "partition")

    def __init__(self, partition: int, leader_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.loading = True
        self.ids: dict[str, TransactionalId] = {}


class TransactionShards:
    """Invariant: an id is in memory only while this broker leads its partition. Owned by the event loop."""

    def __init__(self, state_log: StateLog, clock: Callable[[], int], partition_count: int) -> None:
        self.clock = clock
        self.partition_count = partition_count
        self._log = state_log
        self._by_partition: dict[int, TransactionShard] = {}

    def __iter__(self) -> Iterator[TransactionShard]:
        return iter(list(self._by_partition.values()))

    def of(self, transactional_id: str) -> TransactionShard:
        """A KafkaError says that the id is elsewhere, or not read yet."""
        shard = self._by_partition.get(partition_for(transactional_id, self.partition_count))
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if shard.loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    def get(self, transactional_id: str) -> tuple[TransactionShard, TransactionalId]:
        shard = self.of(transactional_id)
        found = shard.ids.get(transactional_id)
        if found is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return shard, found

    def holds(self, shard: TransactionShard) -> bool:
        return self._by_partition.get(shard.partition) is shard

    async def load(self, partition: int, leader_epoch: int) -> TransactionShard | None:
        """Read a partition that this broker leads from now on; None if there is nothing new to it."""
        known = self._by_partition.get(partition)
        if known is not None:
            if known.leader_epoch >= leader_epoch:
                return None
            if not known.loading:
                known.leader_epoch = leader_epoch  # led all the time: what is in memory is what was written
                return None
        shard = self._by_partition[partition] = TransactionShard(partition, leader_epoch)
        applied = 0
        try:
            async for header, records in self._log.read(partition):
                for record in records:
                    if not header.is_control:
                        _apply(shard, record.offset, record.key, record.value)
                applied += len(records)
                if applied >= _RECORDS_AT_ONCE:
                    applied = 0
                    await asyncio.sleep(0)
        except BaseException:
            if self.holds(shard):
                del self._by_partition[partition]
            raise
        if not self.holds(shard):
            return None  # another broker leads it by now, or a later load replaced this one
        shard.loading = False
        return shard

    def unload(self, partition: int, leader_epoch: int | None = None) -> None:
        shard = self._by_partition.get(partition)
        if shard is not None and (leader_epoch is None or leader_epoch >= shard.leader_epoch):
            del self._by_partition[partition]

    # Writing

    def write(
        self, shard: TransactionShard, which: TransactionalId, changed: Transaction
    ) -> Awaitable[None] | None:
        """Make `changed` the current state. None: it is; else it will be when the awaitable ends."""
        which.pending = changed.state
        try:
            key, value = transaction_key(changed.transactional_id), transaction_value(changed)
            waiting = self._log.append(shard.partition, [(key, value)], self.clock())
        except KafkaError as error:
            which.pending = None
            raise KafkaError(append_error(error.code), error.message) from error
        except BaseException:
            which.pending = None
            raise
        if waiting is not None:
            # The client may go away meanwhile; what is written counts all the same.
            return asyncio.shield(asyncio.ensure_future(self._written(which, changed, waiting)))
        which.current, which.pending = changed, None
        return None

    async def _written(self, which: TransactionalId, changed: Transaction, waiting: Awaitable[None]) -> None:
        try:
            await waiting
        except KafkaError as error:
            raise KafkaError(append_error(error.code), error.message) from error
        else:
            which.current = changed
        finally:
            which.pending = None

    async def remove(self, shard: TransactionShard, which: TransactionalId) -> None:
        """Write the tombstone of an id, and forget it."""
        transactional_id = which.current.transactional_id
        which.pending = TransactionState.DEAD
        try:
            waiting = self._log.append(
                shard.partition, [(transaction_key(transactional_id), None)], self.clock()
            )
            if waiting is not None:
                await waiting
        finally:
            which.pending = None
        if shard.ids.get(transactional_id) is which:
            del shard.ids[transactional_id]


def _apply(shard: TransactionShard, offset: int, key: bytes | None, value: bytes | None) -> None:
    """A record that cannot be read is named in the log and left out: the others of its partition still count."""
    try:
        if key is None:
            raise ValueError("it has no key")
        transactional_id = read_transaction_key(key)
        if transactional_id is None:
            return
        if value is None:
            shard.ids.pop(transactional_id, None)
            return
        transaction = read_transaction_value(transactional_id, value)
        if transaction.state is TransactionState.DEAD:
            shard.ids.pop(transactional_id, None)
        else:
            shard.ids[transactional_id] = TransactionalId(transaction)
    except ValueError as error:
        log.warning(
            "record %d of %s-%d is left out: %s", offset, TRANSACTION_STATE_TOPIC, shard.partition, error
        )
