"""The state machine of a transactional id: the transitions of each state, and the invariants."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.coordinator.transactions.transaction import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    LAST_EPOCH,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    PREPARED,
    ProducerIdAndEpoch,
    Transaction,
    TransactionState,
)
from ottla.protocol.errors import ErrorCode, KafkaError

PARTITIONS = frozenset({("t", 0), ("u", 3)})
NEW_ID = 99


def transaction(
    state: TransactionState = EMPTY, epoch: int = 4, version: int = 2, **fields: object
) -> Transaction:
    partitions = PARTITIONS if state is ONGOING or state in PREPARED else frozenset()
    values = {"partitions": partitions, "start_ms": 10, "updated_ms": 10, "client_version": version} | fields
    return Transaction("x", 7, epoch, 60_000, state, **values)  # type: ignore[arg-type]


def end(
    t: Transaction, epoch: int, *, commit: bool, version: int = 2, producer_id: int = 7
) -> Transaction | None:
    return t.end(producer_id, epoch, commit=commit, client_version=version, new_id=NEW_ID, now_ms=50)


def code_of(call: object, *arguments: object, **options: object) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        call(*arguments, **options)  # type: ignore[operator]
    return refused.value.code


# Beginning


def test_the_first_producer_gets_epoch_0() -> None:
    first = Transaction("x", 7).initialise(1000, None, -1, 5)
    assert (first.producer_id, first.producer_epoch, first.timeout_ms) == (7, 0, 1000)
    assert first.state is EMPTY


@pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_every_later_one_raises_the_epoch(state: TransactionState) -> None:
    again = transaction(state).initialise(1000, None, -1, 5)
    assert (again.producer_epoch, again.last_producer_epoch, again.state) == (5, -1, EMPTY)


@pytest.mark.parametrize("state", PREPARED)
def test_nobody_begins_while_an_end_is_under_way(state: TransactionState) -> None:
    assert code_of(transaction(state).initialise, 1000, None, -1, 5) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_an_open_transaction_is_fenced_and_aborted_first() -> None:
    fenced = transaction(ONGOING).initialise(1000, None, -1, 5)
    assert (fenced.state, fenced.producer_epoch) == (PREPARE_EPOCH_FENCE, 5)
    aborting = fenced.abort_fenced(20)
    assert (aborting.state, aborting.partitions) == (PREPARE_ABORT, PARTITIONS)
    assert aborting.producer_epoch == 6  # a client's own EndTxn in version 2 would have raised it to 5
    assert aborting.complete(30).initialise(1000, None, -1, 40).producer_epoch == 7


def test_a_producer_of_version_1_is_fenced_by_one_epoch() -> None:
    assert transaction(ONGOING, version=0).fence().abort_fenced(20).producer_epoch == 5


def test_a_producer_that_goes_on_after_an_error_keeps_its_place() -> None:
    begun = transaction().initialise(1000, ProducerIdAndEpoch(7, 4), -1, 5)
    assert (begun.producer_epoch, begun.last_producer_epoch) == (5, 4)
    repeated = begun.initialise(1000, ProducerIdAndEpoch(7, 4), -1, 6)
    assert repeated.producer == begun.producer


@pytest.mark.parametrize("expected", [(7, 3), (7, 5), (8, 4)])
@pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, ONGOING])
def test_a_fenced_producer_does_not_get_its_id_back(
    state: TransactionState, expected: tuple[int, int]
) -> None:
    refused = code_of(transaction(state).initialise, 1000, ProducerIdAndEpoch(*expected), -1, 5)
    assert refused is ErrorCode.PRODUCER_FENCED


def test_used_up_epochs_bring_a_new_id() -> None:
    last = transaction(epoch=LAST_EPOCH - 1)
    assert last.needs_new_id(None)
    fresh = last.initialise(1000, None, NEW_ID, 5)
    assert (fresh.producer_id, fresh.producer_epoch, fresh.previous_producer_id) == (NEW_ID, 0, 7)
    asked = ProducerIdAndEpoch(7, LAST_EPOCH - 1)
    fresh = last.initialise(1000, asked, NEW_ID, 5)
    assert fresh.initialise(1000, asked, -1, 6).producer == fresh.producer  # retry after a lost response


# Adding


def test_the_first_partition_begins_the_transaction() -> None:
    begun = transaction(COMPLETE_COMMIT).add_partitions(7, 4, PARTITIONS, 2, 70)
    assert (begun.state, begun.partitions, begun.start_ms, begun.client_version) == (
        ONGOING,
        PARTITIONS,
        70,
        2,
    )
    more = begun.add_partitions(7, 4, frozenset({("v", 1)}), 2, 80)
    assert (more.partitions, more.start_ms, more.updated_ms) == (PARTITIONS | {("v", 1)}, 70, 80)
    assert more.add_partitions(7, 4, PARTITIONS, 2, 90) is more


def test_who_may_not_add() -> None:
    adds = transaction(ONGOING).add_partitions
    assert code_of(adds, 8, 4, PARTITIONS, 2, 0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert code_of(adds, 7, 3, PARTITIONS, 2, 0) is ErrorCode.PRODUCER_FENCED
    assert code_of(adds, 7, 5, PARTITIONS, 2, 0) is ErrorCode.PRODUCER_FENCED
    for state in PREPARED:
        adds = transaction(state).add_partitions
        assert code_of(adds, 7, 4, PARTITIONS, 2, 0) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_only_what_was_added_may_be_written_to() -> None:
    check = transaction(ONGOING).check_partition
    assert check(7, 4, ("t", 0)) is ErrorCode.NONE
    assert check(7, 4, ("t", 1)) is ErrorCode.TRANSACTION_ABORTABLE
    assert check(7, 3, ("t", 0)) is ErrorCode.PRODUCER_FENCED
    assert check(8, 4, ("t", 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert transaction(PREPARE_COMMIT).check_partition(7, 4, ("t", 0)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert transaction(COMPLETE_COMMIT).check_partition(7, 4, ("t", 0)) is ErrorCode.TRANSACTION_ABORTABLE


# Ending


@pytest.mark.parametrize(("version", "epoch"), [(0, 4), (2, 5)])
@pytest.mark.parametrize("commit", [True, False])
def test_an_end_is_prepared_and_then_complete(version: int, epoch: int, commit: bool) -> None:
    prepared = end(transaction(ONGOING), 4, commit=commit, version=version)
    assert prepared is not None
    assert (prepared.state, prepared.partitions) == (PREPARE_COMMIT if commit else PREPARE_ABORT, PARTITIONS)
    assert prepared.producer_epoch == epoch
    done = prepared.complete(60)
    assert (done.state, done.partitions) == (COMPLETE_COMMIT if commit else COMPLETE_ABORT, frozenset())
    assert done.producer == ProducerIdAndEpoch(7, epoch)


@pytest.mark.parametrize("commit", [True, False])
def test_the_same_end_again_is_no_error_and_the_opposite_is(commit: bool) -> None:
    for version in (0, 2):
        done = end(transaction(ONGOING), 4, commit=commit, version=version)
        assert done is not None
        assert code_of(end, done, 4, commit=commit, version=version) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert code_of(end, done, 4, commit=not commit, version=version) is ErrorCode.INVALID_TXN_STATE
        done = done.complete(60)
        assert end(done, 4, commit=commit, version=version) is None
        assert code_of(end, done, 4, commit=not commit, version=version) is ErrorCode.INVALID_TXN_STATE


def test_a_late_end_never_reaches_the_next_transaction() -> None:
    """Promise of KIP-890: a late request for one transaction cannot end the next."""
    prepared = end(transaction(ONGOING), 4, commit=True)
    assert prepared is not None
    following = prepared.complete(60).add_partitions(7, 5, PARTITIONS, 2, 70)
    for commit in (True, False):
        assert code_of(end, following, 4, commit=commit) is ErrorCode.PRODUCER_FENCED
        assert code_of(end, following, 4, commit=commit, version=0) is ErrorCode.PRODUCER_FENCED


def test_nothing_to_commit_and_nothing_to_abort() -> None:
    for state in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT):
        aborted = end(transaction(state), 4, commit=False)
        assert aborted is not None
        assert (aborted.state, aborted.producer_epoch, aborted.partitions) == (PREPARE_ABORT, 5, frozenset())
        assert code_of(end, transaction(state), 4, commit=True) is ErrorCode.INVALID_TXN_STATE
    assert code_of(end, transaction(EMPTY), 4, commit=False, version=0) is ErrorCode.INVALID_TXN_STATE


def test_an_end_with_the_last_epoch_brings_a_new_id() -> None:
    open_ = transaction(ONGOING, epoch=LAST_EPOCH - 1)
    assert open_.end_needs_new_id(2)
    assert not open_.end_needs_new_id(0)
    prepared = end(open_, LAST_EPOCH - 1, commit=True)
    assert prepared is not None
    assert prepared.producer == ProducerIdAndEpoch(7, LAST_EPOCH)  # the epoch in the markers
    done = prepared.complete(60)
    assert done.producer == ProducerIdAndEpoch(NEW_ID, 0)
    assert end(done, LAST_EPOCH - 1, commit=True) is None  # with the old id: the response was lost


def test_the_last_epoch_can_still_be_fenced() -> None:
    aborting = transaction(ONGOING, epoch=LAST_EPOCH - 1).fence().abort_fenced(20)
    assert aborting.producer_epoch == LAST_EPOCH
    fresh = aborting.complete(30).initialise(1000, None, NEW_ID, 40)
    assert fresh.producer == ProducerIdAndEpoch(NEW_ID, 0)


# Time


def test_only_open_transactions_time_out() -> None:
    assert not transaction(ONGOING).is_timed_out(60_010)
    assert transaction(ONGOING).is_timed_out(60_011)
    assert not transaction(PREPARE_COMMIT).is_timed_out(10**9)


def test_only_idle_ids_expire() -> None:
    for state in TransactionState:
        idle = state in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
        assert transaction(state).is_expired(1_010, 1_000) is idle
        assert not transaction(state).is_expired(1_009, 1_000)


@pytest.mark.parametrize(("state", "title"), [(EMPTY, "Empty"), (PREPARE_EPOCH_FENCE, "PrepareEpochFence")])
def test_states_are_shown_as_in_kafka(state: TransactionState, title: str) -> None:
    assert state.title == title


class Producers(RuleBasedStateMachine):
    """Several producers of one transactional id, each with its last known state, in random order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.ids = 100
        self.transaction = Transaction("x", 7)
        self.holders: list[ProducerIdAndEpoch] = []
        self.seen: list[tuple[int, int]] = []

    def _take(self, changed: Transaction) -> None:
        assert changed.partitions == frozenset() or changed.state in (ONGOING, *PREPARED)
        if changed.producer_id == self.transaction.producer_id:
            assert changed.producer_epoch >= self.transaction.producer_epoch
        else:
            assert changed.producer_epoch == 0
        self.transaction = changed

    @rule(jump=st.booleans())
    def initialise(self, jump: bool) -> None:
        self.now += 1
        if jump and self.transaction.state is EMPTY and self.transaction.producer_epoch >= 0:
            self.transaction = replace(
                self.transaction, producer_epoch=max(LAST_EPOCH - 3, self.transaction.producer_epoch)
            )
        self.ids += 1
        try:
            changed = self.transaction.initialise(1000, None, self.ids, self.now)
        except KafkaError:
            assert self.transaction.state in PREPARED
            return
        if changed.state is PREPARE_EPOCH_FENCE:
            self._take(changed.abort_fenced(self.now))
            return
        assert changed.producer not in self.holders, "an epoch was handed out twice"
        self._take(changed)
        self.holders.append(changed.producer)

    @rule(who=st.integers(0, 5), version=st.sampled_from([0, 2]))
    def add(self, who: int, version: int) -> None:
        if not self.holders:
            return
        holder = self.holders[-1 - who % len(self.holders)]
        try:
            changed = self.transaction.add_partitions(
                holder.producer_id, holder.producer_epoch, PARTITIONS, version, self.now
            )
        except KafkaError:
            return
        assert holder == self.transaction.producer, "a fenced producer was let in"
        self._take(changed)

    @rule(who=st.integers(0, 5), commit=st.booleans(), version=st.sampled_from([0, 2]))
    def end(self, who: int, commit: bool, version: int) -> None:
        if not self.holders:
            return
        index = -1 - who % len(self.holders)
        holder = self.holders[index]
        self.ids += 1
        before = self.transaction
        try:
            changed = before.end(
                holder.producer_id, holder.producer_epoch,
                commit=commit, client_version=version, new_id=self.ids, now_ms=self.now,
            )  # fmt: skip
        except KafkaError:
            return
        if changed is None:
            assert before.state is (COMPLETE_COMMIT if commit else COMPLETE_ABORT)
            return
        assert holder == before.producer, "a fenced producer ended a transaction"
        self._take(changed)
        if version == 2:
            self.holders[index] = changed.complete(self.now).producer

    @rule()
    def complete(self) -> None:
        if self.transaction.state in PREPARED:
            self._take(self.transaction.complete(self.now))

    @rule()
    def time_out(self) -> None:
        if self.transaction.state is ONGOING:
            self._take(self.transaction.fence().abort_fenced(self.now))

    @invariant()
    def clients_never_hold_the_last_epoch(self) -> None:
        assert all(holder.producer_epoch < LAST_EPOCH for holder in self.holders)


TestProducers = Producers.TestCase
