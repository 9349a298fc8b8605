"""A transaction: the state machine, and its records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from ottla.coordinator.runtime import decode_key, decode_value, encode_key, encode_value
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.internal_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

# The transactions of one transactional id: a pure state machine.
#
#     Empty ──add──▶ Ongoing ──end──▶ PrepareCommit ──markers written──▶ CompleteCommit ──add──▶ Ongoing …
#                       │    └─end──▶ PrepareAbort  ──markers written──▶ CompleteAbort  ──add──▶ Ongoing …
#                       └─fenced or timed out──▶ PrepareEpochFence ──▶ PrepareAbort
#
# A transaction is a value. Every step takes a transaction and returns the next, which takes effect once written to
# `__transaction_state`. No sockets, no clock, no waiting; forbidden steps raise KafkaError.
#
# A producer with two-phase commit (KIP-939) has no timeout. After a crash it may keep the ongoing transaction: it gets
# a new epoch, which fences the old producer, and then commits or aborts what the old epoch wrote.
#
# Version 2 (KIP-890) bumps the epoch with every end, so that requests in flight for one transaction cannot reach the
# next. Clients use epochs up to 32766: the coordinator reserves one more for fencing.

TopicPartition = tuple[str, int]

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
LAST_EPOCH = 2**15 - 1
EPOCH_BUMP_VERSION = 2
# The timeout of transactions with two-phase commit, as in Kafka's records: they never time out.
NO_TIMEOUT_MS = 2**31 - 1


class TransactionState(IntEnum):
    """States with the values used in `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """Return the name in the spelling of Kafka's tools."""
        return "".join(word.capitalize() for word in self.name.split("_"))


EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT
PREPARE_EPOCH_FENCE = TransactionState.PREPARE_EPOCH_FENCE
PREPARED = (PREPARE_COMMIT, PREPARE_ABORT)


@dataclass(frozen=True, slots=True)
class ProducerIdAndEpoch:
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """Invariants: only Ongoing and the Prepare states have partitions; the epoch of a producer id never decreases; an
    id in use has an epoch below 32767 unless the coordinator has fenced it.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int = 60_000
    state: TransactionState = EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    updated_ms: int = -1
    client_version: int = 0
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    # Epoch before the last bump requested by the same producer; in memory only.
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    # Epoch of the producer that wrote the kept transaction; `producer_epoch` is the one of the producer that ends it.
    kept_epoch: int = NO_PRODUCER_EPOCH

    @property
    def kept(self) -> ProducerIdAndEpoch | None:
        """Return the producer of the ongoing transaction that a later producer keeps."""
        if self.kept_epoch == NO_PRODUCER_EPOCH:
            return None
        return ProducerIdAndEpoch(self.producer_id, self.kept_epoch)

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_EPOCH - 1

    @property
    def producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    def is_timed_out(self, now_ms: int) -> bool:
        if self.timeout_ms == NO_TIMEOUT_MS:
            return False
        return self.state is ONGOING and self.start_ms + self.timeout_ms < now_ms

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        idle = self.state in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
        return idle and self.updated_ms + expiration_ms <= now_ms

    # InitProducerId

    def needs_new_id(self, expected: ProducerIdAndEpoch | None) -> bool:
        return (
            self.state in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
            and self.is_epoch_exhausted
            and (expected is None or expected.producer_epoch == self.producer_epoch)
        )

    def initialise(
        self,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        new_id: int,
        now_ms: int,
        *,
        keep: bool = False,
    ) -> Transaction:
        """Start or restart a producer and fence every older epoch.

        A producer that continues after an error sends its `expected` id and epoch. The call fails if another producer
        has started since. From Ongoing the result is PrepareEpochFence: abort first, then call again. With `keep` it is
        Ongoing in a new epoch.
        """
        if self.state in PREPARED:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if expected is not None and not self._may_be(expected):
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if self.state is ONGOING:
            return self._keep(timeout_ms, now_ms) if keep else self.fence()
        fresh = replace(
            self,
            state=EMPTY,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=-1,
            updated_ms=now_ms,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )
        last = NO_PRODUCER_EPOCH if expected is None else self.producer_epoch
        if self.needs_new_id(expected):
            return replace(fresh, producer_id=new_id, producer_epoch=0, last_producer_epoch=last)
        known = self.producer_epoch != NO_PRODUCER_EPOCH
        if expected is not None and known and expected.producer_epoch != self.producer_epoch:
            if expected.producer_epoch != self.last_producer_epoch:
                raise KafkaError(ErrorCode.PRODUCER_FENCED)
            return fresh  # the producer missed the response to the call that bumped the epoch
        return replace(fresh, producer_epoch=self.producer_epoch + 1, last_producer_epoch=last)

    def _keep(self, timeout_ms: int, now_ms: int) -> Transaction:
        return replace(
            self,
            producer_epoch=min(self.producer_epoch + 1, LAST_EPOCH),
            last_producer_epoch=NO_PRODUCER_EPOCH,
            kept_epoch=self.producer_epoch if self.kept is None else self.kept_epoch,
            timeout_ms=timeout_ms,
            updated_ms=now_ms,
        )

    def _may_be(self, expected: ProducerIdAndEpoch) -> bool:
        if self.producer_epoch == NO_PRODUCER_EPOCH:
            return True
        if expected.producer_id == self.producer_id:
            return self.state is not ONGOING or expected.producer_epoch == self.producer_epoch
        # The id changed because its epochs were exhausted, and the response was lost.
        return expected.producer_id == self.previous_producer_id and expected.producer_epoch >= LAST_EPOCH - 1

    # Partitions

    def add_partitions(
        self,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        client_version: int,
        now_ms: int,
    ) -> Transaction:
        """Add partitions; return the same object if nothing needs to be written."""
        self._check_producer(producer_id, producer_epoch)
        if self.state in PREPARED:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if self.kept is not None:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)  # it can only be ended
        if self.state is ONGOING and partitions <= self.partitions:
            return self
        return replace(
            self,
            state=ONGOING,
            partitions=self.partitions | partitions,
            start_ms=self.start_ms if self.state is ONGOING else now_ms,
            updated_ms=now_ms,
            client_version=client_version,
            previous_producer_id=self.producer_id,
        )

    def check_partition(self, producer_id: int, producer_epoch: int, partition: TopicPartition) -> ErrorCode:
        """Check whether this producer may write to the partition now without adding it."""
        try:
            self._check_producer(producer_id, producer_epoch)
        except KafkaError as error:
            return error.code
        if self.state in PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if self.kept is not None:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.NONE if partition in self.partitions else ErrorCode.TRANSACTION_ABORTABLE

    def _check_producer(self, producer_id: int, producer_epoch: int) -> None:
        if producer_id != self.producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if producer_epoch != self.producer_epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)

    # Ending

    def end_needs_new_id(self, client_version: int) -> bool:
        return client_version >= EPOCH_BUMP_VERSION and self.is_epoch_exhausted

    def end(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        client_version: int,
        new_id: int,
        now_ms: int,
    ) -> Transaction | None:
        """Return the prepared transaction, or None if it already ended this way and the response was lost."""
        bumps = client_version >= EPOCH_BUMP_VERSION
        is_retry = bumps and self._is_retry(producer_id, producer_epoch)
        if not is_retry:
            self._check_producer(producer_id, producer_epoch)
        elif self.state in (ONGOING, EMPTY):
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if self.state is ONGOING:
            return self._prepare(PREPARE_COMMIT if commit else PREPARE_ABORT, client_version, new_id, now_ms)
        if self.state in PREPARED:
            if commit is (self.state is PREPARE_COMMIT):
                raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        if is_retry or (not bumps and self.state is not EMPTY):
            if commit is not (self.state is COMPLETE_COMMIT):
                raise KafkaError(ErrorCode.INVALID_TXN_STATE)
            return None
        if bumps and not commit:
            # No partition was added, but the client does not know that: bump the epoch anyway.
            return replace(self._prepare(PREPARE_ABORT, client_version, new_id, now_ms), start_ms=now_ms)
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)

    def _is_retry(self, producer_id: int, producer_epoch: int) -> bool:
        if self.client_version < EPOCH_BUMP_VERSION:
            return False
        if producer_id == self.producer_id:
            return self.producer_epoch == producer_epoch + 1
        return (
            producer_id == self.previous_producer_id
            and producer_epoch == LAST_EPOCH - 1
            and self.producer_epoch == 0
        )

    def _prepare(self, state: TransactionState, client_version: int, new_id: int, now_ms: int) -> Transaction:
        epoch, last, next_id = self.producer_epoch, self.last_producer_epoch, NO_PRODUCER_ID
        if client_version >= EPOCH_BUMP_VERSION:
            if self.is_epoch_exhausted:
                next_id = new_id
            last, epoch = epoch, min(epoch + 1, LAST_EPOCH)
        return replace(
            self,
            state=state,
            producer_epoch=epoch,
            last_producer_epoch=last,
            updated_ms=now_ms,
            client_version=client_version,
            previous_producer_id=self.producer_id,
            next_producer_id=next_id,
            kept_epoch=NO_PRODUCER_EPOCH,
        )

    def complete(self, now_ms: int) -> Transaction:
        assert self.state in PREPARED
        rotates = self.next_producer_id != NO_PRODUCER_ID
        return replace(
            self,
            state=COMPLETE_COMMIT if self.state is PREPARE_COMMIT else COMPLETE_ABORT,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            producer_epoch=0 if rotates else self.producer_epoch,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            updated_ms=now_ms,
        )

    # Fencing

    def fence(self) -> Transaction:
        """Bump the epoch to fence the producer with the open transaction. Never stored in this state."""
        assert self.state is ONGOING
        return replace(
            self,
            state=PREPARE_EPOCH_FENCE,
            producer_epoch=min(self.producer_epoch + 1, LAST_EPOCH),
            last_producer_epoch=NO_PRODUCER_EPOCH,
            kept_epoch=NO_PRODUCER_EPOCH,
        )

    def abort_fenced(self, now_ms: int) -> Transaction:
        assert self.state is PREPARE_EPOCH_FENCE
        aborting = self._prepare(PREPARE_ABORT, self.client_version, NO_PRODUCER_ID, now_ms)
        return replace(aborting, next_producer_id=NO_PRODUCER_ID, last_producer_epoch=NO_PRODUCER_EPOCH)


# Records of `__transaction_state`, byte for byte as in Kafka: key 0, values 0 and 1. A null value is a tombstone.
#
# The coordinator reads both versions and writes version 1, with the tagged fields of transactions version 2.

_KEY_KIND = 0
_VALUE_VERSION = 1


def transaction_key(transactional_id: str) -> bytes:
    return encode_key(_KEY_KIND, TransactionLogKey(transactional_id=transactional_id))


def transaction_value(transaction: Transaction) -> bytes:
    partitions: list[PartitionsSchema] | None = None
    if transaction.state is not EMPTY:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(transaction.partitions):
            by_topic.setdefault(topic, []).append(partition)
        partitions = [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch if transaction.kept is None else transaction.kept_epoch,
        next_producer_epoch=NO_PRODUCER_EPOCH if transaction.kept is None else transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )
    return encode_value(value, _VALUE_VERSION)


def read_transaction_key(data: bytes) -> str | None:
    """Return the transactional id, or None for a newer key type. Raises ValueError if malformed."""
    if int.from_bytes(data[:2], "big") != _KEY_KIND:
        return None
    return decode_key(TransactionLogKey, data).transactional_id


def read_transaction_value(transactional_id: str, data: bytes) -> Transaction:
    """Raises ValueError if malformed."""
    value = decode_value(TransactionLogValue, data)
    partitions = frozenset(
        (topic.topic, partition)
        for topic in value.transaction_partitions or ()
        for partition in topic.partition_ids
    )
    is_kept = value.next_producer_epoch != NO_PRODUCER_EPOCH
    return Transaction(
        transactional_id,
        value.producer_id,
        value.next_producer_epoch if is_kept else value.producer_epoch,
        value.transaction_timeout_ms,
        TransactionState(value.transaction_status),
        partitions,
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.client_transaction_version,
        value.previous_producer_id,
        value.next_producer_id,
        kept_epoch=value.producer_epoch if is_kept else NO_PRODUCER_EPOCH,
    )
