"""The coordinator around the state machine: write order, restarts between writes, timeouts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from unittest import mock

import pytest

from ottla.coordinator.runtime import Timers
from ottla.coordinator.transactions.coordinator import Marker, TransactionConfig, TransactionCoordinator
from ottla.coordinator.transactions.transaction import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    LAST_EPOCH,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    ProducerIdAndEpoch,
    Transaction,
    TransactionState,
    read_transaction_value,
    transaction_key,
    transaction_value,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from tests.coordinator.clocks import FakeClock
from tests.coordinator.fake_log import FakeStateLog
from tests.coordinator.groups.test_group_coordinator import run

T0, T1 = ("t", 0), ("t", 1)


class FakeMarkers:
    def __init__(self, log: FakeStateLog) -> None:
        self.log = log
        self.written: list[tuple[Marker, tuple[str, int], TransactionState]] = []
        self.errors: dict[tuple[str, int], ErrorCode] = {}

    def write(self, marker: Marker, partitions: Sequence[tuple[str, int]]) -> list[ErrorCode]:
        state = states_in(self.log)[-1]
        results = []
        for partition in partitions:
            error = self.errors.get(partition, ErrorCode.NONE)
            if not error:
                self.written.append((marker, partition, state))
            results.append(error)
        return results


def states_in(log: FakeStateLog) -> list[TransactionState]:
    return [read_transaction_value("x", value).state for _, value in log.records() if value is not None]


class Bench:
    def __init__(self, **config: int) -> None:
        self.config = TransactionConfig(state_log_num_partitions=1, **config)
        self.log = FakeStateLog()
        self.clock = FakeClock()
        self.markers = FakeMarkers(self.log)
        self.next_id = 100
        self.epoch = 0

    async def lead(self) -> Bench:
        self.coordinator = TransactionCoordinator(
            self.config,
            self.log,
            self.markers,
            self._new_id,
            timers=Timers(self.clock.seconds, self.clock.call_later),
            clock=self.clock.milliseconds,
        )
        await self.coordinator.runtime.become_leader(0, self.epoch)
        self.coordinator.start()
        return self

    async def restart(self) -> None:
        self.coordinator.close()
        self.epoch += 1
        await self.lead()

    async def _new_id(self) -> int:
        self.next_id += 1
        return self.next_id

    async def begin(self, *partitions: tuple[str, int], version: int = 2) -> ProducerIdAndEpoch:
        producer = await self.coordinator.init_producer_id("x", 60_000)
        await self.add(producer, *partitions, version=version)
        return producer

    async def add(self, producer: ProducerIdAndEpoch, *partitions: tuple[str, int], version: int = 2) -> None:
        waiting = self.coordinator.add_partitions(
            "x", producer.producer_id, producer.producer_epoch, partitions, version
        )
        if waiting is not None:
            await waiting

    async def end(
        self, producer: ProducerIdAndEpoch, *, commit: bool, version: int = 2
    ) -> ProducerIdAndEpoch:
        return await self.coordinator.end(
            "x", producer.producer_id, producer.producer_epoch, commit=commit, client_version=version
        )

    @property
    def state(self) -> TransactionState:
        return self.coordinator.describe("x").state


@run
async def test_decision_then_markers_then_completion() -> None:
    b = await Bench().lead()
    producer = await b.begin(T0, T1)
    following = await b.end(producer, commit=True)
    assert following == ProducerIdAndEpoch(101, 1)
    assert states_in(b.log) == [TransactionState.EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT]
    marker = Marker(101, 1, True, 0, 2)
    assert b.markers.written == [(marker, T0, PREPARE_COMMIT), (marker, T1, PREPARE_COMMIT)]


@pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
def test_a_decision_is_carried_out_after_a_restart(state: TransactionState) -> None:
    @run
    async def check() -> None:
        b = Bench()
        prepared = Transaction("x", 7, 3, 60_000, state, frozenset({T0, T1}), 1, 2, 2)
        b.log.append(0, [(transaction_key("x"), transaction_value(prepared))], 1)
        b.epoch = 8
        await b.lead()
        await b.clock.run()
        commit = state is PREPARE_COMMIT
        assert [(m, p) for m, p, _ in b.markers.written] == [
            (Marker(7, 3, commit, 8, 2), T0),
            (Marker(7, 3, commit, 8, 2), T1),
        ]
        assert b.state is (COMPLETE_COMMIT if commit else COMPLETE_ABORT)

    check()


@run
async def test_partitions_out_of_reach_keep_no_other_transaction_waiting() -> None:
    b = Bench()
    prepared = Transaction("y", 7, 3, 60_000, PREPARE_COMMIT, frozenset({T0}), 1, 2, 2)
    b.log.append(0, [(transaction_key("y"), transaction_value(prepared))], 1)
    answers: asyncio.Future[list[ErrorCode]] = asyncio.get_running_loop().create_future()
    with mock.patch.object(b.markers, "write", return_value=answers):
        async with asyncio.timeout(30):
            await b.lead()
        await b.clock.run()
        assert (await b.coordinator.init_producer_id("x", 60_000)).producer_id == 101
        with pytest.raises(KafkaError) as refused:
            await b.coordinator.init_producer_id("y", 60_000)
        assert refused.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
        answers.set_result([ErrorCode.NONE])
        await b.clock.run()
    assert b.coordinator.describe("y").state is COMPLETE_COMMIT


@run
async def test_an_open_transaction_goes_on_after_a_restart() -> None:
    b = await Bench().lead()
    producer = await b.begin(T0)
    await b.restart()
    assert b.state is ONGOING
    await b.add(producer, T1)
    await b.end(producer, commit=True)
    assert [p for _, p, _ in b.markers.written] == [T0, T1]


@run
async def test_a_lost_answer_is_given_again_even_after_a_restart() -> None:
    b = await Bench().lead()
    producer = await b.begin(T0)
    following = await b.end(producer, commit=True)
    await b.restart()
    assert await b.end(producer, commit=True) == following
    assert len(b.markers.written) == 1


@run
async def test_partitions_that_cannot_be_told_are_told_later() -> None:
    b = await Bench().lead()
    producer = await b.begin(T0, T1)
    b.markers.errors[T1] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    following = await b.end(producer, commit=True)
    assert b.state is PREPARE_COMMIT
    with pytest.raises(KafkaError) as refused:
        await b.add(following, T0)
    assert refused.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
    with pytest.raises(KafkaError):
        await b.coordinator.init_producer_id("x", 60_000)
    b.markers.errors.clear()
    await b.clock.run(1_000)
    assert b.state is COMPLETE_COMMIT
    assert [p for _, p, _ in b.markers.written] == [T0, T1]  # each marker once
    await b.add(following, T0)


@run
async def test_a_broker_that_does_not_answer_holds_up_nobody_and_is_told_once() -> None:
    b = await Bench().lead()
    producer = await b.begin(T0, T1)
    here = b.markers.write
    answer: asyncio.Future[list[ErrorCode]] = asyncio.get_running_loop().create_future()
    asked = []

    def elsewhere(marker: Marker, partitions: Sequence[tuple[str, int]]) -> asyncio.Future[list[ErrorCode]]:
        asked.append(here(marker, partitions))
        return answer

    with (
        mock.patch.object(b.markers, "write", elsewhere),
        mock.patch("ottla.coordinator.transactions.coordinator._MARKERS_SECONDS", 0.05),
    ):
        following = await b.end(producer, commit=True)
        assert b.state is PREPARE_COMMIT
        with pytest.raises(KafkaError) as refused:
            await b.add(following, T0)
        assert refused.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
        await b.clock.run()
        assert len(asked) == 1
        answer.set_result([ErrorCode.NONE, ErrorCode.NONE])
        for _ in range(5):
            await asyncio.sleep(0)
        assert b.state is COMPLETE_COMMIT


@run
async def test_a_deleted_topic_holds_nothing_up() -> None:
    b = await Bench().lead()
    producer = await b.begin(T0, T1)
    b.markers.errors[T0] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await b.end(producer, commit=False)
    assert b.state is COMPLETE_ABORT


@run
async def test_a_second_producer_aborts_what_the_first_left_open() -> None:
    b = await Bench().lead()
    first = await b.begin(T0)
    second = await b.coordinator.init_producer_id("x", 60_000)
    assert second.producer_id == first.producer_id
    assert second.producer_epoch > first.producer_epoch
    assert [marker.commit for marker, _, _ in b.markers.written] == [False]
    for commit in (True, False):
        with pytest.raises(KafkaError) as refused:
            await b.end(first, commit=commit)
        assert refused.value.code is ErrorCode.PRODUCER_FENCED


@run
async def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    b = await Bench(abort_timed_out_interval_ms=1_000).lead()
    producer = await b.begin(T0)
    await b.clock.run(60_000)
    assert b.state is ONGOING
    await b.clock.run(2_000)
    assert b.state is COMPLETE_ABORT
    with pytest.raises(KafkaError) as refused:
        await b.end(producer, commit=True)
    assert refused.value.code is ErrorCode.PRODUCER_FENCED


@run
async def test_ids_that_nobody_uses_are_forgotten() -> None:
    b = await Bench(id_expiration_ms=10_000, remove_expired_interval_ms=1_000).lead()
    await b.coordinator.init_producer_id("x", 60_000)
    await b.clock.run(9_000)
    assert b.state is TransactionState.EMPTY
    await b.clock.run(2_000)
    with pytest.raises(KafkaError) as refused:
        b.coordinator.describe("x")
    assert refused.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert b.log.records()[-1] == (transaction_key("x"), None)
    await b.restart()
    assert b.coordinator.list_transactions() == []


@run
async def test_the_last_epoch_is_followed_by_another_id() -> None:
    b = Bench()
    last = Transaction("x", 7, LAST_EPOCH - 1, 60_000, COMPLETE_COMMIT, updated_ms=1, client_version=2)
    b.log.append(0, [(transaction_key("x"), transaction_value(last))], 1)
    await b.lead()
    producer = ProducerIdAndEpoch(7, LAST_EPOCH - 1)
    await b.add(producer, T0)
    following = await b.end(producer, commit=True)
    assert following == ProducerIdAndEpoch(101, 0)
    assert b.markers.written[0][0].producer_epoch == LAST_EPOCH
    assert await b.end(producer, commit=True) == following
    await b.restart()
    assert await b.end(producer, commit=True) == following


@run
async def test_timeouts_have_a_limit() -> None:
    b = await Bench(max_timeout_ms=1_000).lead()
    for timeout in (0, -1, 1_001):
        with pytest.raises(KafkaError) as refused:
            await b.coordinator.init_producer_id("x", timeout)
        assert refused.value.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    await b.coordinator.init_producer_id("x", 1_000)


@run
async def test_what_cannot_be_written_has_not_happened() -> None:
    b = await Bench().lead()
    producer = await b.begin(T0)
    b.log.error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(KafkaError) as refused:
        await b.end(producer, commit=True)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert (b.state, b.markers.written) == (ONGOING, [])
    b.log.error = None
    await b.end(producer, commit=False)
    assert b.state is COMPLETE_ABORT


@run
async def test_while_replicas_are_waited_for_nobody_else_comes_in() -> None:
    b = await Bench().lead()
    producer = await b.begin(T0)
    b.log.slow = True
    waiting = b.coordinator.add_partitions("x", producer.producer_id, producer.producer_epoch, [T1], 2)
    assert waiting is not None
    for request in (b.end(producer, commit=True), b.coordinator.init_producer_id("x", 60_000)):
        with pytest.raises(KafkaError) as refused:
            await request
        assert refused.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
    b.log.slow = False
    await b.log.release()
    await waiting
    await b.end(producer, commit=True)
    assert [p for _, p, _ in b.markers.written] == [T0, T1]


@run
async def test_a_client_that_goes_away_does_not_stop_the_end() -> None:
    b = await Bench().lead()
    producer = await b.begin(T0)
    b.log.slow = True
    ending = asyncio.ensure_future(b.end(producer, commit=True))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    await b.clock.run(500)
    b.log.slow = False
    await b.log.release()
    assert b.state is PREPARE_COMMIT
    await b.clock.run(500)
    assert b.state is COMPLETE_COMMIT
    assert [p for _, p, _ in b.markers.written] == [T0]


@run
async def test_ids_of_other_brokers_are_not_answered_for() -> None:
    b = await Bench().lead()
    await b.begin(T0)
    b.coordinator.runtime.resign(0)
    with pytest.raises(KafkaError) as refused:
        b.coordinator.describe("x")
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert b.coordinator.verify_partition("x", 101, 0, T0) is ErrorCode.NOT_COORDINATOR


@run
async def test_a_record_that_cannot_be_read_costs_only_itself(caplog: pytest.LogCaptureFixture) -> None:
    b = Bench()
    good = Transaction("x", 7, 3, 60_000, COMPLETE_COMMIT, updated_ms=1)
    b.log.append(0, [(b"\0\0\0\x09ab", b"?"), (transaction_key("y"), b"\0\1zz")], 1)
    b.log.append(0, [(transaction_key("x"), transaction_value(good))], 1)
    await b.lead()
    assert b.state is COMPLETE_COMMIT
    assert len(b.coordinator.list_transactions()) == 1
