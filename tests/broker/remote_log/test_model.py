"""Random appends, rolls, retention, deleted records and restarts: reads equal a model, whatever is where."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ottla.broker.remote_log.remote_reads import read_remote, remote_offset_for_timestamp
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import Record, build_batch, read_records
from ottla.testing import Broker

from .conftest import TOPIC_CONFIG, eventually, tiered_config

TOPIC = "t"


class Model:
    """The values of a partition that were acknowledged, and where the log starts."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.times: list[int] = []
        self.start = 0


def held(broker: Broker):
    return broker._server.broker.replicas.leader(TOPIC, 0)


async def read_all(broker: Broker, start: int) -> list[tuple[int, bytes | None]]:
    """Read as consumers do: from remote storage below the local log, and locally from there on."""
    partition, manager = held(broker), broker._server.broker.remote_log
    offset, found = start, []
    while offset < partition.high_watermark:
        log = partition.log
        if offset < log.local_start_offset:
            data = (await read_remote(manager, partition, offset, 700, with_aborted=False)).data
        else:
            data = log.read(offset, 700, upto=partition.high_watermark, min_one=True).read()
        before = offset
        for header, records in read_records(data):
            found += [(each.offset, each.value) for each in records if each.offset >= offset]
            offset = max(offset, header.next_offset)
        assert offset > before
    return found


async def append(broker: Broker, values: list[bytes], timestamp: int) -> None:
    partition = held(broker)
    batch = build_batch([Record(at, timestamp, None, value) for at, value in enumerate(values)])
    partition.append(batch, broker._server.broker.now_ms())


async def roll(broker: Broker) -> None:
    held(broker).log.roll()


async def delete(broker: Broker, offset: int) -> None:
    held(broker).delete_records(offset)


async def time_of(broker: Broker, timestamp: int) -> int | None:
    partition, manager = held(broker), broker._server.broker.remote_log
    found = await remote_offset_for_timestamp(manager, partition, timestamp, partition.high_watermark)
    if found is None:
        found = partition.log.offset_for_timestamp(timestamp, partition.high_watermark)
    return None if found is None else found[0]


async def expect_out_of_range(broker: Broker, offset: int) -> None:
    partition, manager = held(broker), broker._server.broker.remote_log
    with pytest.raises(KafkaError) as caught:
        await read_remote(manager, partition, offset, 100, with_aborted=False)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("seed", range(3))
def test_reads_equal_a_model(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    model = Model()
    now = 1_700_000_000_000
    topic_config = TOPIC_CONFIG | {"retention.ms": "-1", "local.retention.ms": "-2"}
    with Broker(data=tmp_path / "data", config=tiered_config(tmp_path / "remote")) as broker:
        broker.create_topic(TOPIC, 1, topic_config)
        for step in range(60):
            action = chance.random()
            if action < 0.75:
                values = [chance.randbytes(chance.randrange(1, 120)) for _ in range(chance.randrange(1, 12))]
                broker._run(append(broker, values, now + len(model.values)))
                model.times += [now + len(model.values)] * len(values)
                model.values += values
            elif action < 0.85:
                broker._run(roll(broker))
            elif action < 0.92 and model.values:
                model.start = chance.randrange(model.start, len(model.values) + 1)
                broker._run(delete(broker, model.start))
            elif action < 0.96:
                broker.restart()
            if step % 5 == 4:
                check(broker, model, chance, now)
        log = held(broker).log
        eventually(lambda: len(log.segments) == 1 or log.log_start_offset >= log.active.base_offset)
        check(broker, model, chance, now)
        broker.restart()
        check(broker, model, chance, now)


def check(broker: Broker, model: Model, chance: random.Random, now: int) -> None:
    log = held(broker).log
    assert (log.log_start_offset, log.log_end_offset) == (model.start, len(model.values))
    expected = list(enumerate(model.values))[model.start :]
    assert broker._run(read_all(broker, model.start)) == expected
    if expected:
        offset = chance.choice(expected)[0]
        assert broker._run(read_all(broker, offset)) == expected[offset - model.start :]
        later = [each for each, _ in expected if model.times[each] >= now + offset]
        assert broker._run(time_of(broker, now + offset)) == next(iter(later), None)
    if model.start > 0:
        broker._run(expect_out_of_range(broker, model.start - 1))
