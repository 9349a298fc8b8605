"""DeleteRecords in a cluster responds once every live replica has deleted the records."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.cluster.replicated import Brokers, batch, brokers, until


async def delete_many(
    cluster: Brokers, offsets: dict[str, int], timeout_ms: int
) -> dict[str, tuple[int, int]]:
    """Return the error code and the low watermark for each topic's only partition."""
    topics = [
        DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
        for name, offset in offsets.items()
    ]
    response = await cluster.peer(0).request(DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms), 2)
    results = {topic.name: topic.partitions[0] for topic in response.topics}
    return {name: (result.error_code, result.low_watermark) for name, result in results.items()}


async def delete_records(cluster: Brokers, offset: int, timeout_ms: int) -> tuple[int, int]:
    return (await delete_many(cluster, {"t": offset}, timeout_ms))["t"]


async def test_records_are_deleted_when_every_replica_that_is_there_has_deleted_them(tmp_path: Path) -> None:
    async with brokers(tmp_path, replica_fetch_wait_max_ms="10000") as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a", "b", "c")
        assert await delete_records(cluster, 1, 9_000) == (0, 1)
        assert [cluster.held(broker_id).log.log_start_offset for broker_id in range(3)] == [1, 1, 1]
        cluster.pause(2)
        assert await delete_records(cluster, 2, 300) == (ErrorCode.REQUEST_TIMED_OUT, 2)
        await cluster.kill(2)
        assert await delete_records(cluster, 3, 9_000) == (0, 3)


async def test_who_deletes_records_is_answered_in_the_next_epoch_of_the_same_leader(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a", "b", "c")
        cluster.pause(2)
        deleting = asyncio.create_task(delete_records(cluster, 2, 15_000))
        await until(lambda: cluster.held(0).leading.deletions)
        await cluster.elect("t", 0)  # all replicas follow a new leader
        assert await deleting == (0, 2)


async def test_who_deletes_records_is_answered_when_no_other_replica_is_left(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a", "b", "c")
        cluster.pause(2)
        deleting = asyncio.create_task(delete_records(cluster, 2, 15_000))
        await until(lambda: cluster.held(0).leading.deletions)
        await cluster.change("t", replicas=(0,), isr=(0,))
        assert await deleting == (0, 2)


async def test_who_deletes_records_hears_when_another_leads(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        for name in ("s", "t", "u"):
            await cluster.create(name)
            await cluster.produce_on(cluster.peer(0), batch("a", "b", "c"), name=name)
        for name in ("s", "t", "u"):
            cluster.pause(2, name)
        deleting = asyncio.create_task(delete_many(cluster, {"s": 2, "t": 2, "u": 2}, 15_000))
        await until(lambda: all(cluster.held(0, name).leading.deletions for name in ("s", "t", "u")))
        await cluster.elect("t", 1)  # while the partitions before and after it still wait
        for name in ("s", "u"):
            cluster.resume(2, name)
        assert await deleting == {"s": (0, 2), "t": (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), "u": (0, 2)}


async def test_all_partitions_are_waited_for_together(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        for name in ("s", "t", "u"):
            await cluster.create(name)
            await cluster.produce_on(cluster.peer(0), batch("a", "b", "c"), name=name)
        for name in ("s", "t", "u"):
            cluster.pause(2, name)
        began = time.monotonic()
        answers = await delete_many(cluster, {"s": 1, "t": 1, "u": 1}, 2000)
        assert set(answers.values()) == {(ErrorCode.REQUEST_TIMED_OUT, 1)}
        assert time.monotonic() - began < 5.5


async def test_deleted_records_do_not_come_back_whoever_leads_after_a_crash(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a", "b", "c")
        assert await delete_records(cluster, 2, 15_000) == (0, 2)
        for broker_id in range(3):
            await cluster.kill(broker_id)
        for broker_id in (1, 2):
            await cluster.start(broker_id)
        await cluster.elect("t", 1, isr=(1, 2))
        assert [cluster.held(broker_id).log.log_start_offset for broker_id in (1, 2)] == [2, 2]
        await cluster.start(0)
        await cluster.produce(1, "d")
        assert cluster.held(1).log.log_start_offset == 2


async def test_a_follower_says_that_records_are_deleted_only_when_that_is_on_disk(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a", "b", "c")
        [directory] = cluster.servers[1].broker.replicas.log_directories
        with directory._checkpointing:  # a slow disk
            assert await delete_records(cluster, 2, 500) == (ErrorCode.REQUEST_TIMED_OUT, 2)
            assert cluster.held(1).log.log_start_offset == 2
            await cluster.produce(0, "d")  # nor do its next fetches report it
            assert cluster.held(0).leading.low_watermark == 0
        await until(lambda: cluster.held(0).leading.low_watermark == 2)
