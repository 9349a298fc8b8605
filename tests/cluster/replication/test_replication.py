"""Replication between real brokers: acknowledged records reach every replica, and stay."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import ApiVersionsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.cluster.replicated import batch, brokers, until, values_of


async def test_what_the_leader_writes_arrives_at_the_followers_byte_for_byte(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        answers = [await cluster.produce(0, f"v{i}") for i in range(10)]
        assert [answer.error_code for answer in answers] == [0] * 10
        assert [answer.base_offset for answer in answers] == list(range(10))
        data = await cluster.same_logs()
        assert values_of(data) == [f"v{i}" for i in range(10)]
        assert await cluster.values(0) == [f"v{i}" for i in range(10)]


async def test_acks_all_waits_for_a_slow_follower_and_acks_1_does_not(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        cluster.pause(2)
        waiting = asyncio.create_task(cluster.produce(0, "all"))
        await until(lambda: cluster.held(1).log.log_end_offset == 1, "the quick follower")
        answer = await cluster.produce(0, "one", acks=1)
        assert (answer.error_code, answer.base_offset) == (0, 1)
        assert not waiting.done()
        assert await cluster.values(0) == [], "a consumer saw what is not committed"
        cluster.resume(2)
        assert (await waiting).base_offset == 0
        await cluster.same_logs()
        assert await cluster.values(0) == ["all", "one"]


async def test_a_consumer_is_woken_by_the_commit_and_not_by_the_append(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        cluster.pause(2)
        fetching = asyncio.create_task(cluster.fetch(0, wait_ms=15_000))
        await until(lambda: cluster.held(0).waiting_fetches == 1)
        producing = asyncio.create_task(cluster.produce(0, "a"))
        await until(lambda: cluster.held(1).log.log_end_offset == 1)
        assert not fetching.done()
        cluster.resume(2)
        assert values_of(bytes((await fetching).records)) == ["a"]
        await producing


async def test_below_min_isr_acks_all_is_refused_and_reads_go_on(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t", min_insync_replicas="2")
        await cluster.produce(0, "a")
        await cluster.same_logs()
        await cluster.kill(1)
        await cluster.kill(2)
        waiting = asyncio.create_task(cluster.produce(0, "b"))
        await until(lambda: cluster.held(0).log.log_end_offset == 2)
        await cluster.change("t", isr=(0,))
        assert (await waiting).error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert (await cluster.produce(0, "c")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert cluster.held(0).log.log_end_offset == 2
        assert await cluster.values(0) == ["a", "b"]
        await cluster.start(1)
        await until(lambda: len(cluster.held(0).isr) == 2, "one to come back")
        assert (await cluster.produce(0, "d")).error_code == 0
        assert await cluster.values(0) == ["a", "b", "d"]


async def test_a_produce_that_waits_too_long_is_told_so(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        cluster.pause(1)
        answer = await cluster.produce(0, "a", timeout_ms=200)
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert not cluster.servers[0].broker.purgatory.sizes()["Produce"]
        assert len(cluster.held(0).leading.commits) == 0


async def test_a_produce_that_waits_is_told_that_another_leads_now(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        cluster.pause(2)
        waiting = asyncio.create_task(cluster.produce(0, "a"))
        await until(lambda: cluster.held(1).log.log_end_offset == 1)
        await cluster.elect("t", 1)
        assert (await waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await cluster.produce(0, "b")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await cluster.produce(1, "c")).error_code == 0
        assert values_of(await cluster.same_logs()) == ["a", "c"]


async def test_who_asks_the_wrong_broker_is_told_who_leads(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        topic = await cluster.create("t")
        asked = PartitionProduceData(index=0, records=batch("a"))
        produced = await cluster.peer(1).request(
            ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[asked])]), 12
        )
        answer = produced.responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (0, 0)
        [node] = produced.node_endpoints
        assert (node.node_id, node.port) == (0, cluster.servers[0].port)
        await cluster.elect("t", 2)
        fetched = await cluster.peer(0).request(
            FetchRequest(
                topics=[
                    FetchTopic(
                        topic_id=topic.topic_id,
                        partitions=[FetchPartition(partition=0, current_leader_epoch=0)],
                    )
                ]
            ),
            16,
        )
        data = fetched.responses[0].partitions[0]
        assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 1)
        assert [node.node_id for node in fetched.node_endpoints] == [2]


async def test_produces_of_one_connection_are_written_while_others_wait_and_answered_in_order(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        cluster.pause(1)
        cluster.pause(2)
        peer = cluster.peer(0)
        await peer.connect()
        order: list[object] = []

        async def produce(i: int) -> None:
            answer = await cluster.produce_on(peer, batch(f"v{i}"), acks=1 if i % 10 == 9 else -1)
            assert answer.error_code == 0
            order.append(answer.base_offset)

        async def ask_versions() -> None:
            await peer.request(ApiVersionsRequest(), 3)
            order.append("versions")

        tasks = [asyncio.create_task(produce(i)) for i in range(50)]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(ask_versions()))
        await until(lambda: cluster.held(0).log.log_end_offset == 50, "all to be written")
        assert order == [], "something was answered before what came first"
        cluster.resume(1)
        cluster.resume(2)
        await asyncio.gather(*tasks)
        assert order == [*range(50), "versions"]


async def test_a_new_leader_has_what_was_acknowledged_and_the_old_one_drops_what_was_not(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        await cluster.produce(0, "kept")
        cluster.pause(1)
        cluster.pause(2)
        for i in range(3):
            await cluster.produce(0, f"lost{i}", acks=1)
        assert await cluster.values(0) == ["kept"]
        await cluster.elect("t", 1)
        assert (await cluster.produce(1, "new")).error_code == 0
        assert values_of(await cluster.same_logs()) == ["kept", "new"]
        assert cluster.held(0).log.epochs.entries == cluster.held(1).log.epochs.entries


async def test_logs_that_diverged_twice_come_together_again(tmp_path: Path) -> None:
    """Two leaders wrote alone, one after the other; a third epoch decides between them (KIP-279)."""
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a")
        await cluster.same_logs()
        cluster.pause(1)
        cluster.pause(2)
        await cluster.produce(0, "b0", "b0", acks=1)
        await cluster.kill(0)
        await cluster.elect("t", 1, isr=(1,))
        cluster.pause(2)
        await cluster.produce(1, "c1", acks=1)
        await cluster.elect("t", 2, isr=(2,))  # unclean: it has neither record
        cluster.pause(1)
        await cluster.produce(2, "d2", "d2", "d2", acks=1)
        await cluster.kill(2)
        await cluster.elect("t", 1, isr=(1,))
        await cluster.produce(1, "e1", acks=1)
        await cluster.start(0)
        await cluster.start(2)
        await until(lambda: set(cluster.held(1).isr) == {0, 1, 2}, "all to be in sync")
        assert values_of(await cluster.same_logs()) == ["a", "c1", "e1"]


async def test_a_leader_epoch_without_records_is_no_reason_to_diverge_for_ever(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a")
        await cluster.same_logs()
        for leader in (1, 2, 0, 1):
            await cluster.elect("t", leader)
        assert (await cluster.produce(1, "b")).error_code == 0
        assert values_of(await cluster.same_logs()) == ["a", "b"]


async def test_a_follower_that_is_behind_the_log_start_begins_anew_there(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t", segment_bytes="1048576")
        await cluster.produce(0, "a", "b", "c")
        await cluster.same_logs()
        cluster.pause(2)
        await cluster.change("t", isr=(0, 1))
        await cluster.produce(0, "d", "e", "f")
        await cluster.produce(0, "g")
        cluster.held(0).log.roll()
        await cluster.produce(0, "h")
        cluster.held(0).delete_records(5)
        await until(lambda: cluster.held(1).log.log_start_offset == 5, "the log start to follow")
        cluster.resume(2)
        await until(lambda: set(cluster.held(0).isr) == {0, 1, 2})
        assert values_of(bytes((await cluster.fetch(0, 6)).records)) == ["g"]
        assert values_of(bytes((await cluster.fetch(0, 7)).records)) == ["h"]
        assert cluster.held(2).log.log_start_offset == 5
        await until(lambda: cluster.held(2).high_watermark == 8)


async def test_a_follower_hears_again_what_crossed_its_request(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t", replicas=(0, 1))
        await cluster.produce(0, "a", "b", "c")
        await cluster.same_logs(brokers=(0, 1))
        cluster.pause(1)
        cluster.resume(
            1
        )  # in one turn: the leader hears of neither, and its next response is not for the new one
        fetcher = cluster.servers[1].broker.replicas.fetchers._by_leader[0]
        assert fetcher._to_name
        cluster.held(0).delete_records(2)
        await until(lambda: cluster.held(1).log.log_start_offset == 2, "the log start", seconds=5)


async def test_a_follower_starts_at_a_log_start_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t", replicas=(0, 1))
        await cluster.produce(0, "a", "b", "c")
        cluster.held(0).delete_records(1)
        topic = cluster.topics["t"]
        state = topic.partitions[0]._replace(replicas=(0, 1, 2))
        await cluster.put(topic._replace(partitions={0: state}))
        await until(lambda: set(cluster.held(0).isr) == {0, 1, 2}, "the new replica")
        assert cluster.held(2).log.log_start_offset == 1
        assert cluster.log_bytes(2) == cluster.log_bytes(0)


async def test_a_leader_that_lost_its_end_makes_followers_cut_theirs(tmp_path: Path) -> None:
    """An unclean leader has a shorter log than its followers in the same epoch, so their offsets are out of range."""
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a")
        cluster.pause(2)
        await cluster.change("t", isr=(0, 1))
        await cluster.produce(0, "b", "b")
        await cluster.elect("t", 2, isr=(2,))
        await until(lambda: set(cluster.held(2).isr) == {0, 1, 2})
        assert values_of(await cluster.same_logs()) == ["a"]


async def test_a_killed_follower_comes_back_and_catches_up(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a")
        await cluster.kill(2)
        await cluster.change("t", isr=(0, 1))
        await cluster.produce(0, "b")
        await cluster.start(2)
        await until(lambda: set(cluster.held(0).isr) == {0, 1, 2})
        assert values_of(await cluster.same_logs()) == ["a", "b"]


async def test_the_high_watermark_survives_a_restart(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a")
        await cluster.same_logs()
        for broker_id in (1, 2, 0):
            await cluster.stop(broker_id)
        await cluster.change("t", leader=-1)
        await cluster.start(0)
        assert cluster.held(0).high_watermark == 1
        assert cluster.held(0).leader == -1


async def test_a_leader_whose_lease_is_over_leads_no_more(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        replicas = cluster.servers[0].broker.replicas
        replicas.lease = lambda: time.monotonic() + 10
        assert (await cluster.produce(0, "a")).error_code == 0
        replicas.lease = lambda: time.monotonic() - 0.001
        assert (await cluster.produce(0, "b")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await cluster.fetch(0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        replicas.lease = None
        assert await cluster.values(0) == ["a"]


async def test_consumers_can_read_from_followers_what_is_committed(tmp_path: Path) -> None:
    async with brokers(tmp_path, replica_fetch_wait_max_ms="50") as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a")
        await cluster.same_logs()
        assert await cluster.values(1) == ["a"]
        cluster.pause(2)
        await cluster.produce(0, "b", acks=1)
        await until(lambda: cluster.held(1).log.log_end_offset == 2)
        assert await cluster.values(1) == ["a"]
        fetching = asyncio.create_task(cluster.fetch(1, 1, wait_ms=15_000))
        cluster.resume(2)
        assert values_of(bytes((await fetching).records)) == ["b"]
        assert (await cluster.fetch(1, epoch=9)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_a_leader_sends_consumers_to_the_replica_in_their_rack(tmp_path: Path) -> None:
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    async with brokers(tmp_path, count=0, replica_selector_class=selector) as cluster:
        for broker_id in range(3):
            await cluster.start(broker_id, **{"broker.rack": f"r{broker_id}"})
        await cluster.create("t")
        await cluster.produce(0, "a")
        await cluster.same_logs()
        answer = await cluster.fetch(0, rack="r2")
        assert (answer.preferred_read_replica, bytes(answer.records)) == (2, b"")
        assert (await cluster.fetch(0, rack="r0")).preferred_read_replica == -1
        assert (await cluster.fetch(0, rack="elsewhere")).preferred_read_replica == -1
        cluster.pause(2)
        await cluster.change("t", isr=(0, 1))
        assert (await cluster.fetch(0, rack="r2")).preferred_read_replica == -1
        assert await cluster.values(0) == ["a"]


async def test_the_sequence_of_an_idempotent_producer_is_known_to_the_new_leader(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        for sequence in range(3):
            await cluster.produce(0, f"v{sequence}", producer_id=7, producer_epoch=0, base_sequence=sequence)
        await cluster.elect("t", 1)
        again = await cluster.produce(1, "v2", producer_id=7, producer_epoch=0, base_sequence=2)
        assert (again.error_code, again.base_offset) == (0, 2)
        gap = await cluster.produce(1, "v9", producer_id=7, producer_epoch=0, base_sequence=9)
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert values_of(await cluster.same_logs()) == ["v0", "v1", "v2"]


async def test_a_transaction_can_be_ended_at_the_new_leader(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        records = batch("a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        cluster.held(0).append(records, 0, from_client=False)
        await cluster.produce(0, "b")
        await until(lambda: cluster.held(1).high_watermark == 2)
        assert cluster.held(1).last_stable_offset == 0
        await cluster.elect("t", 1)
        cluster.held(1).append_marker(
            7, 0, commit=False, coordinator_epoch=0, transaction_version=1, now_ms=1
        )
        await until(lambda: cluster.held(1).last_stable_offset == 3)
        await cluster.same_logs()
        for broker_id in range(3):
            aborted = cluster.held(broker_id).log.segments[0].transaction_index
            found: list[object] = []
            aborted.collect(0, 3, found)
            assert [entry.producer_id for entry in found] == [7]


async def test_a_partition_that_moves_away_is_deleted_here(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t", replicas=(0, 1))
        await cluster.produce(0, "a")
        await cluster.same_logs(brokers=(0, 1))
        topic = cluster.topics["t"]
        state = topic.partitions[0]._replace(
            replicas=(1, 2), isr=(1,), leader=1, leader_epoch=1, partition_epoch=1
        )
        await cluster.put(topic._replace(partitions={0: state}))
        assert not (tmp_path / "0" / "t-0").exists()
        assert cluster.servers[0].broker.replicas.topic("t") == {}
        await until(lambda: set(cluster.held(1).isr) == {1, 2})
        assert values_of(await cluster.same_logs(brokers=(1, 2))) == ["a"]


async def test_a_topic_that_was_deleted_while_a_broker_was_away_is_not_mixed_up_with_its_successor(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        await cluster.produce(0, "old")
        await cluster.same_logs()
        await cluster.stop(2)
        for broker_id in (0, 1):
            await cluster.servers[broker_id].broker.replicas.delete_topic("t")
        await cluster.create("t")
        await cluster.change("t", isr=(0, 1))
        await cluster.produce(0, "new")
        await cluster.start(2)
        await until(lambda: set(cluster.held(0).isr) == {0, 1, 2})
        assert values_of(await cluster.same_logs()) == ["new"]
