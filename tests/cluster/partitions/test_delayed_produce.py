"""Produce requests that wait for other replicas while partitions come and go."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from ottla.cluster.partitions.delayed_operations import Awaited, DelayedProduce, wait_for
from ottla.log.config import storage_error
from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tests.cluster.replicated import Brokers, batch, brokers, until


def written(cluster: Brokers, index: int, value: str) -> Awaited:
    """Write a batch that reaches broker 0 and not its followers."""
    partition = cluster.held(0, index=index)
    info = partition.append(batch(value), 0, from_client=False)
    return Awaited(partition, info.last_offset + 1, PartitionProduceResponse(index=index))


async def test_a_partition_that_moves_while_another_is_waited_for_is_not_acknowledged(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t", partitions=2)
        for index in (0, 1):
            cluster.pause(1, index=index)
            cluster.pause(2, index=index)
        waits = [written(cluster, 0, "stays"), written(cluster, 1, "moves")]
        waiting = asyncio.create_task(wait_for(DelayedProduce, waits, 20_000))
        await asyncio.sleep(0)
        await cluster.change("t", 1, leader=1, leader_epoch=1)
        await until(lambda: cluster.held(0, index=1).log.log_end_offset == 0, "the batch to be cut off")
        assert not waiting.done()
        cluster.resume(1)
        cluster.resume(2)
        await waiting
        assert [wait.answer.error_code for wait in waits] == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_what_moved_before_it_is_waited_for_is_not_acknowledged(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        cluster.pause(1)
        cluster.pause(2)
        waits = [written(cluster, 0, "a")]
        await cluster.elect("t", 1)
        await wait_for(DelayedProduce, waits, 20_000)
        assert waits[0].answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_disk_that_fails_in_a_request_fails_what_is_on_it_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with brokers(tmp_path) as cluster:
        directories = f"{tmp_path / 'a'},{tmp_path / 'b'}"
        await cluster.start(3, **{"log.dirs": directories})
        await cluster.create("t", replicas=(3, 0), partitions=3)  # 0 and 2 in one directory, 1 in the other
        append = PartitionLog.append

        def fail_under_2(log: PartitionLog, *args: Any, **options: Any) -> Any:
            if log.partition == 2:
                raise storage_error("it cannot be written", OSError(errno.EIO, "Input/output error"))
            return append(log, *args, **options)

        monkeypatch.setattr(PartitionLog, "append", fail_under_2)
        data = [PartitionProduceData(index=index, records=batch("a")) for index in range(3)]
        request = ProduceRequest(
            acks=-1, timeout_ms=20_000, topic_data=[TopicProduceData(name="t", partition_data=data)]
        )
        response = await cluster.peer(3).request(request, 12)
        answers = response.responses[0].partition_responses
        assert [ErrorCode(answer.error_code) for answer in answers] == [
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.NONE,
            ErrorCode.KAFKA_STORAGE_ERROR,
        ]
        assert not cluster.servers[3].broker.purgatory.sizes()["Produce"]
