"""ISR changes: leaders add and remove replicas, and acknowledgements respect both the old and the new ISR."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ottla.cluster.partitions.isr import LONG_AGO
from ottla.metadata.stores.store import StoreError
from tests.cluster.replicated import brokers, until, values_of


async def test_who_lags_leaves_the_isr_and_who_catches_up_comes_back(tmp_path: Path) -> None:
    async with brokers(tmp_path, replica_lag_time_max_ms="1500") as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a")
        cluster.pause(2)
        answer = await cluster.produce(0, "b")
        assert answer.error_code == 0, "the produce waited for one who is out of the ISR"
        assert cluster.held(0).isr == (0, 1)
        assert cluster.held(1).isr == (0, 1), "a follower did not hear of it"
        cluster.resume(2)
        await until(lambda: set(cluster.held(0).isr) == {0, 1, 2}, "the ISR to grow")
        assert cluster.altered[0] == (0, 1)
        assert values_of(await cluster.same_logs()) == ["a", "b"]


async def test_a_follower_that_has_nothing_to_fetch_stays_in_sync(tmp_path: Path) -> None:
    async with brokers(tmp_path, replica_lag_time_max_ms="1500", replica_fetch_wait_max_ms="50") as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a")
        await asyncio.sleep(3.0)  # twice the allowed lag
        await cluster.produce(0, "b")
        assert cluster.altered == []


async def test_a_follower_that_was_taken_out_of_the_isr_shows_that_it_is_there(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a")
        cluster.pause(1)
        await cluster.change("t", isr=(0,))
        await until(lambda: cluster.held(0).isr == (0, 2), "the one that follows to come back")
        cluster.resume(1)
        await until(lambda: cluster.held(0).isr == (0, 2, 1), "the other one")


async def test_a_follower_that_showed_itself_too_early_shows_itself_again(tmp_path: Path) -> None:
    async with brokers(tmp_path, replica_lag_time_max_ms="1000") as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a")
        await cluster.same_logs()
        before = cluster.topics["t"]
        state = before.partitions[0]._replace(isr=(0, 1), partition_epoch=1)
        after = cluster.topics["t"] = before._replace(partitions={0: state})
        fetcher = cluster.servers[2].broker.replicas.fetchers._by_leader[0]
        shown = fetcher._followed[after.topic_id, 0].named_in

        async def hear(broker_id: int) -> None:
            broker = cluster.servers[broker_id].broker
            broker.image.put_topic(after)
            await broker.replicas.apply(after, after.partitions)

        await hear(2)
        await until(lambda: fetcher._followed[after.topic_id, 0].named_in > shown, "it to show itself")
        shown = fetcher._request
        await until(lambda: fetcher._answered >= shown, "the leader to see that")
        await hear(0)  # only now the leader knows that the replica is out
        await until(lambda: cluster.held(0).isr == (0, 1, 2), "the idle follower to be let in")


async def test_an_isr_that_cannot_be_written_still_counts_and_is_tried_again(tmp_path: Path) -> None:
    async with brokers(tmp_path, replica_lag_time_max_ms="1500") as cluster:
        await cluster.create("t")
        cluster.refuse_alter = StoreError("the store is away")
        cluster.pause(2)
        waiting = asyncio.create_task(cluster.produce(0, "a"))
        await until(lambda: cluster.held(0).leading.in_sync.asked == (0, 1))
        await asyncio.sleep(0.2)
        assert not waiting.done(), "committed without a replica that may be in the ISR"
        cluster.refuse_alter = None
        assert (await waiting).error_code == 0
        assert cluster.held(0).isr == (0, 1)


async def test_an_isr_that_was_decided_on_an_older_state_is_not_written(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a")
        await cluster.same_logs()
        cluster.pause(2)
        await cluster.produce(0, "b", acks=1)
        await until(lambda: cluster.held(1).log.log_end_offset == 2)
        leading = cluster.held(0).leading
        await until(lambda: leading.followers[1].end_offset == 2)
        cluster.pause(1)
        leading.followers[2].caught_up_at = LONG_AGO
        leading.check()
        assert leading.in_sync.asked == (0, 1)
        await cluster.change("t", isr=(0,))  # the controller also knows that broker 1 is dead
        await until(lambda: not leading._altering)
        assert cluster.altered == []
        assert cluster.topics["t"].partitions[0].isr == cluster.held(0).isr == (0,)


async def test_who_was_to_join_the_isr_is_asked_for_again_when_the_store_is_back(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        cluster.pause(2)
        await cluster.change("t", isr=(0, 1))
        await cluster.produce(0, "a")
        cluster.refuse_alter = StoreError("the store is away")
        cluster.resume(2)
        await until(lambda: cluster.held(0).leading.in_sync.asked == (0, 1, 2))
        waiting = asyncio.create_task(cluster.produce(0, "b"))
        assert (await waiting).error_code == 0
        assert cluster.held(2).log.log_end_offset == 2, "it may be in the ISR, and was not waited for"
        cluster.refuse_alter = None
        await until(lambda: cluster.held(0).isr == (0, 1, 2))


async def test_who_was_to_join_the_isr_and_died_is_not_asked_for_again(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        cluster.pause(2)
        await cluster.change("t", isr=(0, 1))
        await cluster.produce(0, "a")
        cluster.refuse_alter = StoreError("the store is away")
        cluster.resume(2)
        await until(lambda: cluster.held(0).leading.in_sync.asked == (0, 1, 2))
        await cluster.kill(2)
        waiting = asyncio.create_task(cluster.produce(0, "b"))
        await until(
            lambda: cluster.held(0).leading.in_sync.asked == (0, 1), "the one that died to be left out"
        )
        assert not waiting.done(), "committed without a replica that may be in the ISR"
        cluster.refuse_alter = None
        assert (await waiting).error_code == 0
        assert cluster.altered == [(0, 1)]


async def test_who_was_to_join_the_isr_and_lags_by_now_is_not_asked_for_again(tmp_path: Path) -> None:
    async with brokers(tmp_path, replica_lag_time_max_ms="1500") as cluster:
        await cluster.create("t")
        cluster.pause(2)
        await cluster.change("t", isr=(0, 1))
        await cluster.produce(0, "a")
        cluster.refuse_alter = StoreError("the store is away")
        cluster.resume(2)
        await until(lambda: cluster.held(0).leading.in_sync.asked == (0, 1, 2))
        cluster.pause(2)
        waiting = asyncio.create_task(cluster.produce(0, "b"))
        await until(lambda: cluster.held(0).leading.in_sync.asked == (0, 1), "the laggard to be left out")
        cluster.refuse_alter = None
        assert (await waiting).error_code == 0
        assert cluster.altered == [(0, 1)]


async def test_a_leader_that_lost_a_race_learns_the_state_from_the_others(tmp_path: Path) -> None:
    async with brokers(tmp_path, replica_lag_time_max_ms="1500") as cluster:
        await cluster.create("t")
        cluster.pause(2)
        # The store has moved on, and the leader does not know yet.
        topic = cluster.topics["t"]
        state = topic.partitions[0]._replace(isr=(0, 2), partition_epoch=7)
        cluster.topics["t"] = topic._replace(partitions={0: state})
        waiting = asyncio.create_task(cluster.produce(0, "a"))
        await until(lambda: cluster.held(0).leading._is_outdated)
        assert not waiting.done()
        cluster.resume(2)
        await cluster.tell(cluster.topics["t"])
        assert (await waiting).error_code == 0
        await until(lambda: set(cluster.held(0).isr) == {0, 1, 2})
