"""Any order of appends, fetches, elections, crashes and late updates keeps committed records and consistent logs.

Partitions and logs are real; the schedule simulates the network, the store and the clock.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.fetch.follower_fetch import divergence
from ottla.cluster.partitions.leader_state import LeaderContext
from ottla.cluster.partitions.partition import Partition
from ottla.cluster.replication.follower_requests import truncation_offset
from ottla.log.config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.metadata.cluster_image import PartitionImage
from ottla.metadata.stores.store import BadVersion, StoreError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import read_records
from tests.cluster.replicated import batch

REPLICAS = (0, 1, 2)
EXPECTED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
)
CONFIG = LogConfig(segment_bytes=400, min_insync_replicas=1)


class Model:
    """Three replicas of one partition, each with its own view of the leader."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = PartitionImage("t", 0, 0, 0, REPLICAS, REPLICAS, 0)
        self.acknowledged: dict[int, str] = {}
        self.alters: list[tuple[asyncio.Future[str], Any]] = []
        self.written = 0
        self.partitions = {broker_id: self.open(broker_id, 0) for broker_id in REPLICAS}
        for broker_id in REPLICAS:
            self.deliver(broker_id)

    def open(self, broker_id: int, high_watermark: int) -> Partition:
        log = PartitionLog.open(self.path / str(broker_id), "t", 0, CONFIG)
        context = LeaderContext(0.0, lambda *_: True)
        context.isr_store = self
        return Partition("t", bytes(16), 0, broker_id, log, context, high_watermark)

    # The store

    async def alter(
        self, topic: str, index: int, *, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int
    ) -> int:
        """Respond when the schedule says so, or lose the response."""
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.alters.append((answer, None))
        how = await answer
        if how == "lost before":
            raise StoreError("away")
        if self.state.partition_epoch != partition_epoch:
            raise BadVersion("/state")
        self.state = self.state._replace(isr=isr, partition_epoch=partition_epoch + 1)
        if how == "lost after":
            raise StoreError("away")
        return self.state.partition_epoch

    def answer_store(self, which: int, how: str) -> None:
        if self.alters:
            future, _ = self.alters.pop(which % len(self.alters))
            if not future.done():
                future.set_result(how)

    def elect(self, which: int) -> None:
        isr = self.state.isr
        self.state = self.state._replace(
            leader=isr[which % len(isr)],
            leader_epoch=self.state.leader_epoch + 1,
            partition_epoch=self.state.partition_epoch + 1,
        )

    def take_out(self, which: int) -> None:
        """Remove a broker that the controller believes dead."""
        isr = tuple(b for b in self.state.isr if b == self.state.leader or b != which)
        if isr != self.state.isr:
            self.state = self.state._replace(isr=isr, partition_epoch=self.state.partition_epoch + 1)

    def deliver(self, broker_id: int) -> None:
        partition, state = self.partitions[broker_id], self.state
        if (state.leader_epoch, state.partition_epoch) < (
            partition.leader_epoch,
            partition.partition_epoch,
        ):
            return
        if state.leader == broker_id:
            partition.become_leader(state)
        else:
            partition.become_follower(state)

    # Brokers

    def append(self, broker_id: int, records: int) -> None:
        partition = self.partitions[broker_id]
        if not partition.is_leader:
            return
        values = [f"{self.written + i}" for i in range(records)]
        self.written += records
        info = partition.append(batch(*values), 0)
        assert partition.leading is not None
        written = {info.first_offset + i: value for i, value in enumerate(values)}
        if partition.high_watermark > info.last_offset:
            self.try_complete(written, partition.high_watermark)
        else:
            partition.leading.commits.add(info.last_offset + 1, self, written)

    def try_complete(self, key: dict[int, str], progress: int) -> None:
        self.acknowledged.update(key)

    def fail(self, key: dict[int, str], error: ErrorCode) -> None:
        """Producers treat these batches as not acknowledged."""

    def fetch(self, broker_id: int, max_bytes: int = 1000) -> None:
        """Fetch once from the presumed leader."""
        follower = self.partitions[broker_id]
        if follower.leader in (broker_id, -1):
            return
        leader = self.partitions[follower.leader]
        try:
            if not leader.is_leader:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            leader.check_epoch(follower.leader_epoch)
            assert leader.leading is not None
            log = follower.log
            fetch_offset = log.log_end_offset
            diverging = divergence(leader, fetch_offset, log.epochs.latest)
            if diverging is not None:
                leaders = (diverging.epoch, diverging.end_offset)
                own = log.epoch_end_offset(leaders[0])
                follower.truncate_to(
                    truncation_offset(log.log_end_offset, follower.high_watermark, own, leaders)
                )
                return
            leader.leading.fetched(broker_id, log.log_end_offset, log.log_start_offset)
        except KafkaError as error:
            if error.code not in EXPECTED:
                raise
            return
        region = leader.log.read(fetch_offset, max_bytes, upto=leader.log.log_end_offset, min_one=True)
        if region.size:
            follower.append_from_leader(memoryview(bytearray(region.read())))
        follower.follow_offsets(leader.high_watermark, leader.log.log_start_offset)

    def crash(self, broker_id: int, forgets: int) -> None:
        """End the process and keep its files. The stored high watermark may be stale."""
        before = self.partitions[broker_id]
        if before.leading is not None:
            before.leading.close()
        before.leading = None
        before.log.abandon()
        noted = max(before.high_watermark - forgets, 0)
        self.partitions[broker_id] = self.open(broker_id, noted)
        # A restarted broker follows or leads only in an epoch that began after its crash.
        if self.state.leader == broker_id:
            self.elect(self.state.isr.index(broker_id))

    # Invariants

    def contents(self, broker_id: int) -> dict[int, str]:
        log = self.partitions[broker_id].log
        found = {}
        offset = 0
        while offset < log.log_end_offset:
            region = log.read(offset, 1 << 20, upto=log.log_end_offset, min_one=True)
            for header, records in read_records(region.read()):
                for record in records:
                    found[record.offset] = (record.value or b"").decode()
                offset = header.next_offset
        return found

    def check(self) -> None:
        logs = {broker_id: self.contents(broker_id) for broker_id in REPLICAS}
        for broker_id in self.state.isr:
            for offset, value in self.acknowledged.items():
                assert logs[broker_id].get(offset) == value, f"broker {broker_id} lost offset {offset}"
        for a in REPLICAS:
            for b in REPLICAS[a + 1 :]:
                upto = min(self.partitions[a].high_watermark, self.partitions[b].high_watermark)
                for offset in range(upto):
                    assert logs[a].get(offset) == logs[b].get(offset), f"{a} and {b} differ at {offset}"

    async def come_to_rest(self) -> None:
        for _ in range(60):
            while self.alters:
                self.answer_store(0, "done")
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            for broker_id in REPLICAS:
                self.deliver(broker_id)
            for broker_id in REPLICAS:
                self.fetch(broker_id)
            leading = self.partitions[self.state.leader].leading
            assert leading is not None
            leading.check()
            await asyncio.sleep(0)
        ends = {partition.log.log_end_offset for partition in self.partitions.values()}
        assert len(ends) == 1
        marks = {partition.high_watermark for partition in self.partitions.values()}
        assert marks == ends
        assert set(self.state.isr) == set(REPLICAS)
        assert self.contents(0) == self.contents(1) == self.contents(2)


# Relative frequency of each step. Elections are rare, so that the preconditions of a bad one can build up.
WEIGHTS = {
    "append": 6,
    "fetch": 12,
    "deliver": 6,
    "answer_store": 8,
    "laggards": 3,
    "elect": 2,
    "take_out": 1,
    "crash": 1,
}
ANSWERS = ("done", "done", "lost before", "lost after")


def step(model: Model, random: Random) -> None:
    name = random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    which = random.randrange(3)
    if name == "laggards":
        leading = model.partitions[which].leading
        if leading is not None:
            leading.check()
    elif name == "append":
        model.append(model.state.leader if random.random() < 0.7 else which, random.randint(1, 2))
    elif name == "fetch":
        model.fetch(which, random.choice((1, 1000)))
    elif name == "answer_store":
        model.answer_store(which, random.choice(ANSWERS))
    elif name == "crash":
        model.crash(which, random.randrange(4))
    else:
        getattr(model, name)(which)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(20, 150))
def test_committed_records_are_never_lost(seed: int, steps: int) -> None:
    random = Random(seed)

    async def run() -> None:
        with tempfile.TemporaryDirectory() as directory:
            model = Model(Path(directory))
            for _ in range(steps):
                step(model, random)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                model.check()
            await model.come_to_rest()
            model.check()
            for partition in model.partitions.values():
                partition.log.abandon()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
