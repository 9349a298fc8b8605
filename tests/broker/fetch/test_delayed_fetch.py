"""Fetches that wait while several events come at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest import mock

from ottla.broker.fetch import delayed_fetch
from ottla.broker.fetch.consumer_fetch import ConsumerFetch
from ottla.log.cold_reads import ColdRange
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.cluster.replicated import Brokers, batch, brokers, until, values_of

PARTITIONS = 300  # more than are read at once


def waiting(cluster: Brokers) -> ConsumerFetch | None:
    found = [each for each in cluster.held(0).watches_high_watermark if isinstance(each, ConsumerFetch)]
    return found[0] if found else None


async def fetch(cluster: Brokers, partitions: int, *, wait_ms: int = 60_000) -> FetchResponse:
    asked = [FetchPartition(partition=index, partition_max_bytes=1000) for index in range(partitions)]
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=[FetchTopic(topic="t", partitions=asked)])
    response = await cluster.peer(0).request(request, 12)
    assert isinstance(response, FetchResponse)
    return response


async def test_a_fetch_of_many_partitions_that_expires_with_new_data_is_read_once(tmp_path: Path) -> None:
    async with brokers(tmp_path, count=1) as cluster:
        await cluster.create("t", replicas=(0,), partitions=PARTITIONS)
        fetching = asyncio.create_task(fetch(cluster, PARTITIONS))
        await until(lambda: cluster.servers[0].broker.purgatory.sizes()["Fetch"])
        operation = waiting(cluster)
        assert operation is not None
        with mock.patch.object(
            ConsumerFetch, "_begin", autospec=True, side_effect=ConsumerFetch._begin
        ) as reads:
            for index in range(PARTITIONS):
                cluster.held(0, index=index).append(batch("a"), 0, from_client=False)
            operation.expire()
            response = await fetching
        assert reads.call_count == 1
        assert response.error_code == 0
        answers = response.responses[0].partitions
        assert len(answers) == PARTITIONS
        assert all(values_of(bytes(answer.records)) == ["a"] for answer in answers)
        assert not cluster.servers[0].broker.purgatory.sizes()["Fetch"]


async def test_a_record_that_arrives_between_two_slices_of_a_fetch_is_returned(tmp_path: Path) -> None:
    async with brokers(tmp_path, count=1) as cluster:
        await cluster.create("t", replicas=(0,), partitions=PARTITIONS)
        fetching = asyncio.create_task(fetch(cluster, PARTITIONS))
        await until(lambda: waiting(cluster))  # the first partition has been read, the last ones may not
        cluster.held(0).append(batch("a"), 0, from_client=False)
        response = await asyncio.wait_for(fetching, 30)
        assert values_of(bytes(response.responses[0].partitions[0].records)) == ["a"]
        assert not waiting(cluster)


async def test_a_fetch_that_waits_for_the_disk_is_answered_once_although_its_time_is_up(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path, count=1) as cluster:
        await cluster.create("t", replicas=(0,))
        partition = cluster.held(0)
        partition.append(batch("a"), 0, from_client=False)
        segment = partition.log.active
        cold = ColdRange(segment.path, segment.offset_index.path, 0, 0, segment.size)
        with (
            mock.patch("ottla.broker.fetch.delayed_fetch.cold_range", return_value=cold),
            mock.patch.object(delayed_fetch, "read_cold", side_effect=delayed_fetch.read_cold) as read,
        ):
            response = await fetch(cluster, 1, wait_ms=0)
        assert read.call_count == 1
        assert values_of(bytes(response.responses[0].partitions[0].records)) == ["a"]
        assert not partition.waiting_fetches


async def test_a_client_that_disconnects_leaves_nothing_behind(tmp_path: Path) -> None:
    async with brokers(tmp_path, count=1) as cluster:
        await cluster.create("t", replicas=(0,), partitions=2)
        fetching = asyncio.create_task(fetch(cluster, 2))
        await until(lambda: waiting(cluster))
        cluster._peers[-1].close()
        await asyncio.wait([fetching])
        await until(lambda: not waiting(cluster))
        assert not cluster.held(0, index=1).watches_high_watermark
        assert not cluster.servers[0].broker.purgatory.sizes()["Fetch"]
