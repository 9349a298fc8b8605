"""Share group records, with bytes that Apache Kafka 4.3.0 wrote."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

import pytest

from ottla.coordinator.groups.share_group import (
    ShareGroupState,
    apply_share,
    share_difference,
    share_tombstones,
)
from ottla.coordinator.runtime import KeyValue
from ottla.coordinator.share.share_coordinator import (
    ShareCoordinator,
    ShareKey,
    ShareState,
    ShareUpdate,
    apply,
    snapshot_record,
    update_record,
)
from ottla.coordinator.share.share_partition import DeliveryState, StateBatch
from ottla.protocol.batch_header import BatchHeader
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import Record, build_batch, read_records

GROUP = "sgb8a2d2"
TOPIC = bytes.fromhex("320c48f0bc6640cf9275cedf1f5e945c")
KEY = ShareKey(GROUP, TOPIC, 0)
SNAPSHOT_KEY = "0000" + "0008" + GROUP.encode().hex() + TOPIC.hex() + "00000000"
UPDATE_KEY = "0001" + SNAPSHOT_KEY[4:]
CREATED = "0000000000000000000200000000ffffffffffffffff000001a1def9ca5b000001a1def9ca5b0100"
UPDATES = [
    "0000000000000000000000000000000000000400000000000000000000000000000001020001000000000000000002000000000000"
    "000200000100000000000000000300000000000000030400010001000400000003",
    "000000000000000000000000000000000002030000000000000002000000000000000202000200000000000000000400000000000000"
    "040000010001000400000002",
]
ALTERED = "00000000000100000006000000000000000000000002000001a1def9ddc2000001a1def9ddc20101000400000000"

G = "0008" + GROUP.encode().hex()
M = "0016" + b"m1xxxxxxxxxxxxxxxxxxxx".hex()
GROUP_RECORDS = {
    "000a" + G + M: "0000000670726f62650b2f3132372e302e302e310209737462386132643200",
    "000b" + G: "000000000003e04de41a26402e3e00",
    "000f" + G: "00000102320c48f0bc6640cf9275cedf1f5e945c097374623861326432030000000000000001000100",
    "000d" + G + M: "000002320c48f0bc6640cf9275cedf1f5e945c0300000000000000010000",
    "000c" + G: "000000000003010008000001a1def9cabc",
    "000e" + G + M: "000000000003000000020002320c48f0bc6640cf9275cedf1f5e945c0300000000000000010000",
}


def test_a_snapshot_is_written_as_kafka_writes_it() -> None:
    state = ShareState(2, created_ms=0x1A1DEF9CA5B, written_ms=0x1A1DEF9CA5B)
    assert [part.hex() for part in snapshot_record(KEY, state) if part] == [SNAPSHOT_KEY, CREATED]
    altered = ShareState(6, 0, 2, 0, 1, 0x1A1DEF9DDC2, 0x1A1DEF9DDC2)
    assert (snapshot_record(KEY, altered)[1] or b"").hex() == ALTERED


def test_an_update_is_written_as_kafka_writes_it() -> None:
    state = ShareState(2, delivery_complete=3)
    batches = [
        StateBatch(0, 1, DeliveryState.ACKNOWLEDGED, 1),
        StateBatch(2, 2, DeliveryState.AVAILABLE, 1),
        StateBatch(3, 3, DeliveryState.ARCHIVED, 1),
    ]
    assert [part.hex() for part in update_record(KEY, state, 0, batches) if part] == [UPDATE_KEY, UPDATES[0]]


def test_what_kafka_wrote_is_read() -> None:
    states: dict[ShareKey, ShareState] = {}
    apply(states, bytes.fromhex(SNAPSHOT_KEY), bytes.fromhex(CREATED))
    for each in UPDATES:
        apply(states, bytes.fromhex(UPDATE_KEY), bytes.fromhex(each))
    state = states[KEY]
    assert (state.state_epoch, state.start_offset, state.delivery_complete, state.updates) == (2, 2, 2, 2)
    assert state.batches() == [
        StateBatch(2, 2, DeliveryState.ACKNOWLEDGED, 2),
        StateBatch(3, 3, DeliveryState.ARCHIVED, 1),
        StateBatch(4, 4, DeliveryState.AVAILABLE, 1),
    ]
    apply(states, bytes.fromhex(SNAPSHOT_KEY), None)
    assert states == {}


def test_a_share_group_that_kafka_wrote_is_read_and_written_byte_for_byte() -> None:
    state = ShareGroupState()
    for key, value in GROUP_RECORDS.items():
        apply_share(state, int(key[:4], 16), bytes.fromhex(key), bytes.fromhex(value))
    assert state.initialized == {TOPIC: ("stb8a2d2", frozenset((0, 1)))}
    written = [
        (key.hex(), (value or b"").hex()) for key, value in share_difference(GROUP, ShareGroupState(), state)
    ]
    assert written == list(GROUP_RECORDS.items())
    for key, _ in share_tombstones(GROUP, state):
        apply_share(state, int.from_bytes(key[:2], "big"), key, None)
    assert (state.members, state.targets, state.initialized) == ({}, {}, {})


class MemoryLog:
    """Replicates immediately, or on `replicate` while `slow`."""

    def __init__(self, *, slow: bool = False) -> None:
        self.slow = slow
        self.records: list[tuple[int, KeyValue]] = []
        self.starts: dict[int, int] = {}
        self.waiting: list[asyncio.Future[None]] = []

    def append(self, partition: int, records: Sequence[KeyValue], now_ms: int) -> asyncio.Future[None] | None:
        self.records += [(partition, record) for record in records]
        return self.wait_committed(partition)

    def append_transactional(self, *_: object) -> None:
        raise NotImplementedError

    def wait_committed(self, partition: int) -> asyncio.Future[None] | None:
        if not self.slow:
            return None
        self.waiting.append(asyncio.get_running_loop().create_future())
        return self.waiting[-1]

    def replicate(self, error: KafkaError | None = None) -> None:
        waiting, self.waiting = self.waiting, []
        for future in waiting:
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

    def end_offset(self, partition: int) -> int:
        return sum(p == partition for p, _ in self.records)

    def delete_before(self, partition: int, offset: int) -> None:
        self.starts[partition] = offset

    async def read(self, partition: int) -> AsyncIterator[tuple[BatchHeader, Sequence[Record]]]:
        found = [r for p, r in self.records if p == partition]
        if not found:
            return
        batch = build_batch([Record(0, 0, key, value) for key, value in found])
        for header, records in read_records(batch):
            yield header, records


def leading(log: MemoryLog, *partitions: int, of: int = 3) -> ShareCoordinator:
    store = ShareCoordinator(log, lambda: 7, updates_per_snapshot=2)
    store.runtime.partition_count = of
    for partition in partitions:
        asyncio.run(store.runtime.become_leader(partition, 1))
    return store


def update(offset: int, *, state_epoch: int = 2, leader_epoch: int = 0) -> ShareUpdate:
    batches = [StateBatch(offset, offset, DeliveryState.ACKNOWLEDGED, 1)]
    return ShareUpdate(state_epoch, leader_epoch, offset, 1, batches)


def test_what_another_broker_keeps_is_neither_known_nor_begun_anew() -> None:
    log = MemoryLog()
    store = leading(log, 0, 1, 2)
    store.initialize(KEY, 2, start_offset=5)
    [(partition, _)] = log.records
    others = [each for each in range(3) if each != partition]
    for elsewhere in (leading(log, *others), store):
        elsewhere.runtime.resign(partition)
        for refused in (
            partial(elsewhere.get, KEY),
            partial(elsewhere.initialize, KEY, 3, 0),
            partial(elsewhere.read, KEY, 1),
            partial(elsewhere.write, KEY, update(1)),
            partial(elsewhere.delete, KEY),
            partial(elsewhere.summary, KEY, -1),
        ):
            with pytest.raises(KafkaError, match="Another broker keeps the state") as error:
                refused()
            assert error.value.code is ErrorCode.NOT_COORDINATOR
    assert len(log.records) == 1
    asyncio.run(store.runtime.become_leader(partition, 2))
    assert store.get(KEY).start_offset == 5


def test_a_store_reads_back_what_it_wrote_and_begins_anew_with_a_snapshot() -> None:
    log = MemoryLog()
    store = leading(log, 0, 1, 2)
    store.initialize(KEY, 2, -1)
    for offset in range(5):
        store.write(KEY, update(offset))
    kinds = [int.from_bytes(key[:2], "big") for _, (key, _) in log.records]
    assert kinds == [0, 1, 1, 0, 1, 1, 0, 1]
    assert list(log.starts.values()) == [6], "only the last snapshot and what follows is needed"
    again = leading(log, 0, 1, 2)
    assert again.get(KEY) == store.get(KEY)
    again.delete_topics({TOPIC})
    assert again.summary(KEY, -1) is None


def test_what_was_never_initialized_is_neither_read_nor_written() -> None:
    store = leading(MemoryLog(), 0, 1, 2)
    for refused in (partial(store.read, KEY, 0), partial(store.write, KEY, update(0))):
        with pytest.raises(KafkaError, match="INVALID_REQUEST"):
            refused()
    assert store.summary(KEY, -1) is None
    assert store.delete(KEY) is None


def test_the_leader_that_read_last_fences_those_before_it_and_the_next_coordinator_knows() -> None:
    log = MemoryLog()
    store = leading(log, 0, 1, 2)
    store.initialize(KEY, 2, 0)
    store.write(KEY, update(0, leader_epoch=4))
    store.read(KEY, 5)
    for keeper in (store, leading(log, 0, 1, 2)):
        written = len(log.records)
        for refused in (partial(keeper.write, KEY, update(1, leader_epoch=4)), partial(keeper.read, KEY, 4)):
            with pytest.raises(KafkaError, match="FENCED_LEADER_EPOCH"):
                refused()
        assert len(log.records) == written
        keeper.write(KEY, update(1, leader_epoch=5))


def test_a_leader_that_knows_what_was_before_the_offsets_were_set_is_fenced() -> None:
    store = leading(MemoryLog(), 0, 1, 2)
    store.initialize(KEY, 2, -1)
    store.initialize(KEY, 3, 7)
    with pytest.raises(KafkaError, match="FENCED_STATE_EPOCH"):
        store.write(KEY, update(0, state_epoch=2))
    with pytest.raises(KafkaError, match="FENCED_STATE_EPOCH"):
        store.initialize(KEY, 2, -1)
    assert store.get(KEY).start_offset == 7


def test_who_asks_twice_to_begin_does_not_undo_what_was_read_in_between() -> None:
    store = leading(MemoryLog(), 0, 1, 2)
    store.initialize(KEY, 2, -1)
    store.write(KEY, update(3))
    store.initialize(KEY, 2, -1)
    assert store.get(KEY).start_offset == 3


def test_nothing_is_answered_before_it_is_replicated_and_nothing_deleted_that_is_needed() -> None:
    log = MemoryLog()
    store = leading(log, 0, 1, 2)

    async def replicated(pending: Any, error: KafkaError | None = None) -> Any:
        task = asyncio.ensure_future(pending)
        await asyncio.sleep(0)
        assert not task.done()
        log.replicate(error)
        return await task

    async def run() -> None:
        log.slow = True
        await replicated(store.initialize(KEY, 2, 0))
        await replicated(store.write(KEY, update(0)))
        log.starts.clear()
        failed = store.write(KEY, update(1))  # with a snapshot
        assert log.starts == {}, "the older snapshot is needed while the newer one is not replicated"
        with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
            await replicated(failed, KafkaError(ErrorCode.REQUEST_TIMED_OUT))
        assert log.starts == {}
        assert (await replicated(store.read(KEY, 0))).start_offset == 1
        await replicated(store.write(KEY, update(2)))
        await replicated(store.write(KEY, update(3)))
        assert list(log.starts.values()) == [6]

    asyncio.run(run())


def test_a_delivery_state_that_is_not_known_is_refused() -> None:
    state = ShareState(1)
    state.put(0, 0, [StateBatch(0, 0, 5, 1)])
    with pytest.raises(ValueError, match="delivery state 5"):
        apply({}, *snapshot_record(KEY, state))
