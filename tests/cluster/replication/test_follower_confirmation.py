"""Followers confirm a leader's leadership while ZooKeeper is unavailable."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

from ottla.cluster.replication.follower_requests import FollowerConfirmation
from tests.cluster.replicated import Brokers, brokers, until


def confirmation(cluster: Brokers) -> FollowerConfirmation:
    broker = cluster.servers[0].broker
    return FollowerConfirmation(0, broker.replicas.partitions, broker.follower_sessions.followers)


async def test_a_leader_is_certain_while_all_who_are_in_sync_follow(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a")
        now = monotonic()
        assert now < confirmation(cluster).until(now) < now + 1
        assert confirmation(cluster).until(now + 3) == 0, "they have been silent for too long"
        await cluster.kill(2)
        fetches = cluster.servers[0].broker.follower_sessions
        await until(lambda: fetches.followers(0) == {1})
        assert confirmation(cluster).until(now) == 0


async def test_who_may_have_joined_the_isr_could_be_elected(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a")
        await cluster.kill(2)
        await cluster.change("t", isr=(0, 1))
        fetches = cluster.servers[0].broker.follower_sessions
        await until(lambda: fetches.followers(0) == {1})
        now = monotonic()
        assert confirmation(cluster).until(now) > now
        cluster.held(0).leading.in_sync.ask((0, 1, 2))
        assert confirmation(cluster).until(now) == 0


async def test_both_answers_hold_for_a_little_while(tmp_path: Path) -> None:
    async with brokers(tmp_path) as cluster:
        await cluster.create("t")
        await cluster.produce(0, "a")
        in_sync = cluster.held(0).leading.in_sync
        vouched, now = confirmation(cluster), monotonic()
        in_sync.ask((0, 1, 2, 3))
        assert vouched.until(now) < now
        assert in_sync.learn((0, 1, 2), 1)
        assert vouched.until(now + 0.1) < now
        assert vouched.until(now + 0.3) > now + 0.3
        in_sync.ask((0, 1, 2, 3))
        assert vouched.until(now + 0.4) > now + 0.4
        assert vouched.until(now + 0.7) < now + 0.7
