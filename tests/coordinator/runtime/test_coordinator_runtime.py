"""Promises of the shared coordinator runtime: state only for led partitions, and storage before the response."""

from __future__ import annotations

import asyncio

import pytest

from ottla.coordinator.runtime import CoordinatorRuntime, CoordinatorShard, Timers, when_stored
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import BatchHeader, Record
from tests.coordinator.clocks import FakeClock
from tests.coordinator.fake_log import FakeStateLog
from tests.coordinator.groups.test_group_coordinator import run


class Shard(CoordinatorShard):
    def __init__(self, partition: int, leader_epoch: int) -> None:
        super().__init__(partition, leader_epoch)
        self.seen: list[object] = []

    def replay(self, header: BatchHeader, record: Record) -> None:
        if record.value == b"bad":
            raise ValueError("it is bad")
        self.seen.append(record.value)

    def replay_marker(self, producer_id: int, *, commit: bool) -> None:
        self.seen.append((producer_id, commit))

    def on_loaded(self) -> None:
        self.seen.append("loaded")

    def on_unloaded(self) -> None:
        self.seen.append("unloaded")


class Bench:
    def __init__(self) -> None:
        self.log = FakeStateLog()
        self.clock = FakeClock()
        self.runtime = CoordinatorRuntime(
            "__topic",
            self.log,
            Shard,
            partition_count=1,
            timers=Timers(self.clock.seconds, self.clock.call_later),
            clock=self.clock.milliseconds,
        )

    async def lead(self, epoch: int = 1) -> Shard:
        await self.runtime.become_leader(0, epoch)
        return self.runtime.shard_of("anything")


@run
async def test_records_and_markers_are_replayed_in_order_and_bad_records_are_skipped() -> None:
    b = Bench()
    b.log.append(0, [(b"k", b"one"), (b"k", b"bad")], 1)
    b.log.append_transactional(0, [(b"k", b"two")], 1, 7, 0)
    b.log.append_marker(0, 7, 0, commit=True)
    b.log.append_marker(0, 8, 0, commit=False)
    assert (await b.lead()).seen == [b"one", b"two", (7, True), (8, False), "loaded"]


@run
async def test_what_is_not_led_or_not_loaded_is_refused() -> None:
    b = Bench()
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        b.runtime.shard_of("x")
    b.log.reading.clear()
    loading = asyncio.ensure_future(b.runtime.become_leader(0, 1))
    await asyncio.sleep(0)
    with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        b.runtime.shard_of("x")
    b.log.reading.set()
    await loading
    shard = b.runtime.shard_of("x")
    b.runtime.resign(0, leader_epoch=0)
    assert b.runtime.is_current(shard), "an older epoch is not news"
    b.runtime.resign(0, leader_epoch=2)
    assert not b.runtime.is_current(shard)
    assert shard.seen == ["loaded", "unloaded"]


@run
async def test_a_leader_that_stays_keeps_what_it_has_and_one_that_resigned_while_loading_has_nothing() -> (
    None
):
    b = Bench()
    shard = await b.lead(1)
    assert await b.lead(5) is shard
    assert shard.leader_epoch == 5
    b.runtime.resign(0)
    b.log.reading.clear()
    loading = asyncio.ensure_future(b.runtime.become_leader(0, 6))
    await asyncio.sleep(0)
    b.runtime.resign(0)
    b.log.reading.set()
    await loading
    assert b.runtime.find(0) is None


@run
async def test_an_answer_waits_for_the_replicas_and_failures_are_those_of_coordinators() -> None:
    b = Bench()
    shard = await b.lead()
    assert when_stored(b.runtime.append(shard, [(b"k", b"v")]), "answer") == "answer"
    b.log.slow = True
    stored = asyncio.ensure_future(when_stored(b.runtime.append(shard, [(b"k", b"v")]), "answer"))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert not stored.done()
    await b.log.release()
    assert await stored == "answer"
    pending = b.runtime.append(shard, [(b"k", b"v")])
    assert pending is not None
    failing = asyncio.ensure_future(pending)
    await asyncio.sleep(0)
    await b.log.release(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
        await failing
    b.log.error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        b.runtime.append(shard, [(b"k", b"v")])


@run
async def test_a_duty_that_fails_is_tried_again_and_ends_with_the_runtime() -> None:
    b = Bench()
    rounds = []

    async def duty() -> None:
        rounds.append(b.clock.now_ms)
        if len(rounds) == 1:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    b.runtime.every(100, duty)
    await b.clock.run(100)
    await b.clock.run(100)
    assert len(rounds) == 2
    b.runtime.close()
    await b.clock.run(1_000)
    assert len(rounds) == 2
