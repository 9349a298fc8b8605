"""Throttled replicas stay within their rate; all others catch up at full speed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ottla.cluster.replication.replication_throttle import ReplicationThrottle
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.dynamic_configs.dynamic_broker_config import DynamicBrokerConfig
from ottla.protocol.errors import KafkaError
from tests.cluster.replicated import Brokers, batch, brokers, until

RATE = 400_000
TOPICS = ("a", "b", "c", "d", "e")
_BATCH, _BATCHES = 30_000, 10


def hold_back(cluster: Brokers, side: str, rate: int | None) -> None:
    """Set the rate on every broker, in place of the feed."""
    configs = {} if rate is None else {f"{side}.replication.throttled.rate": str(rate)}
    for server in cluster.servers.values():
        server.config.set_dynamic(broker=configs)
        replicas = server.broker.replicas
        replicas.leader_throttle.configure()
        replicas.fetchers.throttle.configure()


async def written(cluster: Brokers, name: str, **configs: str) -> None:
    await cluster.create(name, replicas=(0,), **configs)
    peer = cluster.peer(0)
    for _ in range(_BATCHES):
        await cluster.produce_on(peer, batch("x" * _BATCH), name=name)


def copied(cluster: Brokers) -> int:
    return sum(
        cluster.held(1, name).log.size for name in TOPICS if cluster.servers[1].broker.replicas.topic(name)
    )


def is_in_sync(cluster: Brokers, name: str) -> bool:
    return set(cluster.held(0, name).isr) == {0, 1}


@pytest.mark.parametrize("side", ["leader", "follower"])
@pytest.mark.parametrize("named", ["*", "0:0,0:1"])
async def test_each_side_alone_keeps_the_rate(tmp_path: Path, side: str, named: str) -> None:
    async with brokers(tmp_path) as cluster:
        for name in TOPICS:
            await written(cluster, name, **{f"{side}_replication_throttled_replicas": named})
        hold_back(cluster, side, RATE)
        began = time.monotonic()
        for name in TOPICS:
            await cluster.change(name, replicas=(0, 1), adding_replicas=(1,))
        speeds = [0.0]

        def all_in_sync() -> bool:
            passed = time.monotonic() - began
            if passed > 1:
                speeds.append(copied(cluster) / passed)
            return all(is_in_sync(cluster, name) for name in TOPICS)

        await until(all_in_sync)
        size, took = copied(cluster), time.monotonic() - began
        assert size >= len(TOPICS) * _BATCHES * _BATCH
        # The bucket starts full, so one second's worth passes immediately.
        assert 0.5 * RATE < (size - RATE) / took < 1.2 * RATE
        assert max(speeds) < 2.3 * RATE
        for name in TOPICS:
            await cluster.same_logs(name, brokers=(0, 1))


async def test_replicas_that_are_not_named_or_are_in_sync_are_not_held_back(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await written(cluster, "a", leader_replication_throttled_replicas="1:0,0:2")
        await cluster.create("b", replicas=(0, 1), leader_replication_throttled_replicas="*")
        hold_back(cluster, "leader", 1)
        await cluster.change("a", replicas=(0, 1), adding_replicas=(1,))
        await until(lambda: is_in_sync(cluster, "a"))
        peer = cluster.peer(0)
        for _ in range(5):
            await cluster.produce_on(peer, batch("x" * _BATCH), name="b")
        await cluster.same_logs("b", brokers=(0, 1))


@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_what_is_held_back_goes_on_when_the_rate_is_lifted(tmp_path: Path, side: str) -> None:
    async with brokers(tmp_path) as cluster:
        await written(cluster, "a", **{f"{side}_replication_throttled_replicas": "*"})
        hold_back(cluster, side, 0)
        await cluster.change("a", replicas=(0, 1), adding_replicas=(1,))
        await until(lambda: cluster.servers[1].broker.replicas.topic("a"))
        began = time.monotonic()
        await until(lambda: time.monotonic() > began + 0.5)
        assert cluster.held(1, "a").log.log_end_offset == 0
        hold_back(cluster, side, None)
        await until(lambda: is_in_sync(cluster, "a"))
        await cluster.same_logs("a", brokers=(0, 1))


def test_a_rate_is_a_number() -> None:
    config = BrokerConfig({"broker.id": "1"})
    for wrong in ("fast", "-1"):
        with pytest.raises(KafkaError, match="Invalid value"):
            DynamicBrokerConfig(config).validate(
                {"leader.replication.throttled.rate": wrong}, cluster_default=False
            )
    DynamicBrokerConfig(config).validate({"leader.replication.throttled.rate": "5"}, cluster_default=False)


def test_a_large_batch_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("ottla.cluster.replication.replication_throttle.monotonic", lambda: now)
    config = BrokerConfig({"broker.id": "1"})
    config.set_dynamic(broker={"leader.replication.throttled.rate": "1000"})
    throttle = ReplicationThrottle.of_leaders(1, config, ClusterImage())
    assert throttle.left() == 1000
    throttle.take(1500)
    assert throttle.left() == -500
    assert throttle.wait() == pytest.approx(0.7)
    now += 0.7
    assert throttle.wait() == 0
    assert throttle.left() == pytest.approx(200)
    now += 60
    assert throttle.left() == 1000
