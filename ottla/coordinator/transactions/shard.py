"""One partition of `__transaction_state` and its transactional ids."""

from __future__ import annotations

from collections.abc import Callable

from ottla.coordinator.runtime.coordinator_runtime import CoordinatorShard
from ottla.coordinator.transactions.transaction import Transaction, TransactionState
from ottla.coordinator.transactions.transaction_records import read_transaction_key, read_transaction_value
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import BatchHeader, Record


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
