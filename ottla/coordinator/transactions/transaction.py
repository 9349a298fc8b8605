"""The transactions of one transactional id: a pure state machine.

    Empty ──add──▶ Ongoing ──end──▶ PrepareCommit ──markers written──▶ CompleteCommit ──add──▶ Ongoing …
                      │    └─end──▶ PrepareAbort  ──markers written──▶ CompleteAbort  ──add──▶ Ongoing …
                      └─fenced or timed out──▶ PrepareEpochFence ──▶ PrepareAbort

A transaction is a value: every step takes one and returns the next, which counts once it is written to
`__transaction_state`. No sockets, no clock, no waiting; what is not allowed is a KafkaError.

Version 2 (KIP-890) raises the epoch with every end, so that whatever is still under way for one transaction cannot
reach the next. Epochs end at 32766 for clients: the coordinator keeps one more to be able to fence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from ottla.protocol.errors import ErrorCode, KafkaError

TopicPartition = tuple[str, int]

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
LAST_EPOCH = 2**15 - 1
EPOCH_BUMP_VERSION = 2


class TransactionState(IntEnum):
    """With the numbers that `__transaction_state` uses."""

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
        """As Kafka's tools show it."""
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
    """Invariants: only Ongoing and the Prepare states have partitions; the epoch of a producer id never falls;
    while an id is in use its epoch is below 32767, unless the coordinator has fenced it.
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
    # The epoch before the last bump that the same producer asked for; in memory only.
    last_producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_EPOCH - 1

    @property
    def producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    def is_timed_out(self, now_ms: int) -> bool:
        return self.state is ONGOING and self.start_ms + self.timeout_ms < now_ms

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        idle = self.state in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
        return idle and self.updated_ms + expiration_ms <= now_ms

    # InitProducerId

    def needs_new_id(self, expected: ProducerIdAndEpoch | None) -> bool:
        """Whether `initialise` wants a producer id that nobody has used."""
        return (
            self.state in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
            and self.is_epoch_exhausted
            and (expected is None or expected.producer_epoch == self.producer_epoch)
        )

    def initialise(
        self, timeout_ms: int, expected: ProducerIdAndEpoch | None, new_id: int, now_ms: int
    ) -> Transaction:
        """A producer begins, or begins again: everything with an older epoch is fenced.

        `expected` is what a producer says that wants to go on after an error; it is refused if another one
        has begun since. From Ongoing the result is PrepareEpochFence: abort that first, then ask again.
        """
        if self.state in PREPARED:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if expected is not None and not self._may_be(expected):
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if self.state is ONGOING:
            return self.fence()
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
            return fresh  # it has not seen the answer to the call that bumped the epoch
        return replace(fresh, producer_epoch=self.producer_epoch + 1, last_producer_epoch=last)

    def _may_be(self, expected: ProducerIdAndEpoch) -> bool:
        if self.producer_epoch == NO_PRODUCER_EPOCH:
            return True
        if expected.producer_id == self.producer_id:
            return self.state is not ONGOING or expected.producer_epoch == self.producer_epoch
        # The id was changed because its epochs were used up, and the answer was lost.
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
        """The same object if there is nothing to write."""
        self._check_producer(producer_id, producer_epoch)
        if self.state in PREPARED:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
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
        """May this producer write to the partition now, without adding it?"""
        try:
            self._check_producer(producer_id, producer_epoch)
        except KafkaError as error:
            return error.code
        if self.state in PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
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
        """The prepared transaction, or None if it has ended this way already and the answer was lost."""
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
            # Nothing was added, but the client does not know that: the epoch is raised all the same.
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
        )

    def complete(self, now_ms: int) -> Transaction:
        """All markers are written."""
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
        """Raise the epoch, so that the producer that has the transaction open is fenced. Never stored in this state."""
        assert self.state is ONGOING
        return replace(
            self,
            state=PREPARE_EPOCH_FENCE,
            producer_epoch=min(self.producer_epoch + 1, LAST_EPOCH),
            last_producer_epoch=NO_PRODUCER_EPOCH,
        )

    def abort_fenced(self, now_ms: int) -> Transaction:
        assert self.state is PREPARE_EPOCH_FENCE
        aborting = self._prepare(PREPARE_ABORT, self.client_version, NO_PRODUCER_ID, now_ms)
        return replace(aborting, next_producer_id=NO_PRODUCER_ID, last_producer_epoch=NO_PRODUCER_EPOCH)
