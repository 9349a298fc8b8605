"""Followers catch up with their leaders from any distance, despite failures."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ottla.cluster.partitions.partition import Partition
from ottla.log.partition_log import PartitionLog
from tests.cluster.replicated import batch, brokers, until, values_of


async def test_many_partitions_are_followed_and_cost_nothing_while_nothing_happens(tmp_path: Path) -> None:
    async with brokers(tmp_path, replica_fetch_wait_max_ms="200") as cluster:
        await cluster.create("t", partitions=100)
        await cluster.produce(0, "a")
        fetchers = cluster.servers[1].broker.replicas.fetchers
        fetcher = fetchers._by_leader[0]
        await until(lambda: len(fetcher._named) == 100)
        first = fetcher._request
        await asyncio.sleep(1)
        assert 1 <= fetcher._request - first <= 8
        for index in (0, 50, 99):
            assert cluster.held(0, index=index).leading.followers[1].end_offset >= 0


async def test_a_follower_that_is_far_behind_catches_up_in_large_responses(tmp_path: Path) -> None:
    async with brokers(tmp_path, replica_fetch_max_bytes="3000000") as cluster:
        await cluster.create("t", segment_bytes="4000000")
        cluster.pause(1)
        cluster.pause(2)
        peer = cluster.peer(0)
        for i in range(30):
            await cluster.produce_on(peer, batch(str(i) * 500_000), acks=1)
        cluster.resume(1)
        cluster.resume(2)
        await cluster.produce_on(peer, batch("end"))
        assert len(await cluster.same_logs()) > 30 * 500_000
        assert len(list(cluster.held(2).log.segments)) == len(list(cluster.held(0).log.segments))


async def test_a_batch_that_did_not_fit_in_a_response_comes_with_the_next(tmp_path: Path) -> None:
    names = ("a", "b", "c")
    async with brokers(tmp_path, replica_fetch_response_max_bytes="50000") as cluster:
        for name in names:
            await cluster.create(name, replicas=(0, 1))
            cluster.pause(1, name)
        peer = cluster.peer(0)
        for name in names:
            for _ in range(3):
                await cluster.produce_on(peer, batch("x" * 30_000), acks=1, name=name)
        for name in names:
            cluster.resume(1, name)
        for name in names:
            await cluster.same_logs(name, brokers=(0, 1))


async def test_a_follower_whose_log_fails_goes_on_with_its_other_partitions(tmp_path: Path) -> None:
    async with brokers(tmp_path, replica_lag_time_max_ms="1500") as cluster:
        await cluster.create("t", partitions=2)
        await cluster.create("u")
        await cluster.produce(0, "a")
        await cluster.same_logs()
        log = cluster.held(2).log
        log.offline_reason = "it is broken"  # the state after a failed fsync or truncation
        assert (await cluster.produce(0, "b")).error_code == 0
        assert cluster.held(0).isr == (0, 1)
        answer = await cluster.produce_on(cluster.peer(0), batch("x"), name="u")
        assert answer.error_code == 0
        assert values_of(await cluster.same_logs("u")) == ["x"]
        assert cluster.held(2).log.log_end_offset == 1
        log.offline_reason = None
        await until(lambda: set(cluster.held(0).isr) == {0, 1, 2})
        assert values_of(await cluster.same_logs()) == ["a", "b"]


async def test_a_connection_that_ends_while_nothing_is_fetched_is_made_again(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t", replicas=(0, 1))
        await cluster.produce(0, "a")
        await cluster.same_logs(brokers=(0, 1))
        fetcher = cluster.servers[1].broker.replicas.fetchers._by_leader[0]
        cluster.pause(1)
        await until(lambda: fetcher._peer is not None and not fetcher._peer.in_flight, "the last answer")
        await cluster.kill(0)
        await cluster.start(0)
        cluster.resume(1)
        assert (await cluster.produce(0, "b")).error_code == 0
        assert values_of(await cluster.same_logs(brokers=(0, 1))) == ["a", "b"]


async def test_a_connection_that_ends_while_its_last_answer_is_handled_is_made_again(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t", replicas=(0, 1))
        await cluster.produce(0, "a")
        fetcher = cluster.servers[1].broker.replicas.fetchers._by_leader[0]
        await until(lambda: fetcher._session_id and fetcher._peer.in_flight == 1)
        cut = []

        def cut_off(number: int, answers: Any, peer: Any, handle: Any = fetcher._handle) -> None:
            if not cut:
                cut.append(peer)
                peer._fail(OSError("cut off"))
            handle(number, answers, peer)

        fetcher._handle = cut_off
        assert (await cluster.produce(0, "b")).error_code == 0
        assert cut
        await until(lambda: fetcher._peer is not None and fetcher._peer is not cut[0], seconds=0.9)


async def test_a_follower_that_failed_for_no_known_reason_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t", replicas=(0, 1))
        await cluster.produce(0, "a")
        append, failed = PartitionLog.append_as_follower, []

        def fail(log: PartitionLog, *args: Any) -> None:
            if len(failed) < 3:
                failed.append(log)
                raise RuntimeError("a defect")
            append(log, *args)

        monkeypatch.setattr(PartitionLog, "append_as_follower", fail)
        assert (await cluster.produce(0, "b")).error_code == 0
        assert len(failed) == 3
        assert values_of(await cluster.same_logs(brokers=(0, 1))) == ["a", "b"]


async def test_a_follower_that_did_not_find_its_place_looks_for_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t", replicas=(0, 1))
        await cluster.produce(0, "a")
        cluster.pause(1)
        await cluster.change("t", isr=(0,))
        await cluster.produce(0, "b")
        cluster.held(0).delete_records(2)
        begin, failed = Partition.truncate_fully_and_start_at, []

        def fail(partition: Partition, offset: int) -> None:
            if len(failed) < 3:
                failed.append(offset)
                raise RuntimeError("a defect")
            begin(partition, offset)

        monkeypatch.setattr(Partition, "truncate_fully_and_start_at", fail)
        cluster.resume(1)
        await until(lambda: cluster.held(0).isr == (0, 1), "it to catch up")
        assert failed == [2, 2, 2]
