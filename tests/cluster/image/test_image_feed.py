"""The image follows the store: notifications, missed changes that it reads again, and updates to replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from ottla.broker.security.delegation_tokens import DelegationTokens
from ottla.cluster.image.change_notifications import (
    CHANGES,
    Change,
    ChangedPartition,
    decode_change,
    encode_change,
    sequence_of,
)
from ottla.cluster.topics.quota_changes import alter_client_quotas
from ottla.metadata import nodes
from ottla.metadata.client_quotas import CLIENT_ID, QuotaChange, entity
from ottla.metadata.nodes import PartitionState
from ottla.metadata.stores.store import BadVersion
from ottla.security.principal import KafkaPrincipal
from tests.cluster.members import Member, members, until

TOPIC_ID = bytes(range(16))


def test_a_change_comes_back_as_it_was_written() -> None:
    change = Change(
        (
            ChangedPartition("t", TOPIC_ID, 3, PartitionState(1, 7, (1, 2), 4), 12),
            ChangedPartition("t", TOPIC_ID, 4, PartitionState(-1, 8, (2,), 4), 1),
        ),
        ("a", "b"),
        ("groups/g",),
    )
    assert decode_change(encode_change(change)) == change
    assert decode_change(encode_change(Change())) == Change()
    assert encode_change(Change((change.partitions[0],))) == (
        b'{"version":1,"partitions":[{"topic":"t","topic_id":"AAECAwQFBgcICQoLDA0ODw","partition":3,"leader":1,'
        b'"leader_epoch":7,"isr":[1,2],"controller_epoch":4,"partition_epoch":12}]}'
    )


@pytest.mark.parametrize("data", [b"", b"[]", b'{"partitions":[{}]}', b"\xff"])
def test_what_is_no_change_says_so(data: bytes) -> None:
    with pytest.raises(nodes.BadNode):
        decode_change(data)


def test_the_number_of_a_node() -> None:
    assert sequence_of("change_0000000042") == 42
    assert sequence_of("config_change_0000000000") == 0
    assert sequence_of("something") == -1


async def test_what_one_broker_creates_all_know(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        topic = await found[2].admin.create_topic("t", 6, 2, configs={"retention.ms": "5"})
        assert found[2].image.topics["t"].partitions == topic.partitions
        await until(lambda: all(m.image.topics.get("t") == found[2].image.topics["t"] for m in found))
        for member in found:
            mine = {i for i, each in topic.partitions.items() if member.id in each.replicas}
            await until(lambda member=member, mine=mine: set(member.replicas.topic("t")) == mine)
        await found[0].admin.create_partitions("t", 9)
        await until(lambda: all(len(m.image.topics["t"].partitions) == 9 for m in found))
        assert {m.image.topics["t"].version for m in found} == {1}


async def test_two_brokers_extend_a_topic_one_after_the_other(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        await found[0].admin.create_topic("t", 1, 1)
        await until(lambda: "t" in found[1].image.topics)
        await found[0].admin.create_partitions("t", 3)
        await found[1].admin.create_partitions("t", 5)
        await until(lambda: all(len(m.image.topics["t"].partitions) == 5 for m in found[:2]))


async def test_a_leader_alters_its_isr_only_from_what_it_is(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        await found[0].admin.create_topic("t", assignment=[(0, [1, 2])])
        await until(lambda: "t" in found[1].image.topics)
        epoch = await found[1].states.alter("t", 0, isr=(1,), leader_epoch=0, partition_epoch=0)
        assert epoch == 1
        await until(lambda: all(m.state("t") == (1, 0, (1,)) for m in found))
        with pytest.raises(BadVersion):
            await found[1].states.alter("t", 0, isr=(1, 2), leader_epoch=0, partition_epoch=0)
        assert await found[1].states.alter("t", 0, isr=(1, 2), leader_epoch=0, partition_epoch=1) == 2


async def test_a_writer_that_is_behind_decides_again_on_what_there_is(tmp_path: Path) -> None:
    async with members(tmp_path, 2) as found:
        await found[0].admin.create_topic("t", assignment=[(0, [0, 1])])
        await until(lambda: "t" in found[1].image.topics)
        await found[1].feed.stop()
        await found[0].states.alter("t", 0, isr=(0,), leader_epoch=0, partition_epoch=0)
        written = await found[1].states.change(
            [("t", 0)], lambda each: each._replace(leader_epoch=each.leader_epoch + 1)
        )
        assert written == [("t", 0)]
        await until(lambda: found[0].state("t") == (0, 1, (0,)))


async def test_a_broker_that_missed_changes_reads_everything(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        away = Member(found[0].store, 9, {})
        await found[0].admin.create_topic("gone", 1, 1)
        await found[0].admin.create_topic("kept", assignment=[(0, [0, 1])])
        await away.feed.load()
        assert set(away.image.topics) == {"gone", "kept"}
        # While the feed is paused, more changes happen than later notifications can cover.
        await found[0].admin.delete_topic("gone")
        await found[0].states.alter("kept", 0, isr=(0,), leader_epoch=0, partition_epoch=0)
        await found[0].admin.create_topic("new", 1, 1)
        for name in (await found[0].store.children(CHANGES))[:-1]:
            await found[0].store.delete(f"{CHANGES}/{name}")
        away.feed.start(away.replicas)
        await until(lambda: set(away.image.topics) == {"kept", "new"})
        assert away.state("kept") == (0, 0, (0,))
        # From here the feed follows as before.
        await found[0].admin.create_topic("newer", 1, 1)
        await until(lambda: "newer" in away.image.topics)
        await away.feed.stop()


async def test_a_lost_session_costs_nothing_but_a_look_at_everything(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        await found[0].admin.create_topic("t", 3, 3)
        await until(lambda: "t" in found[1].image.topics)
        await until(lambda: len(found[1].replicas.topic("t")) == 3)
        applied, topic = found[1].replicas.applied, found[1].image.topics["t"]
        found[1].feed.reload()
        await found[1].feed.sync()
        assert found[1].image.topics["t"] is topic  # unchanged topics are not replaced
        assert found[1].replicas.applied == applied


async def test_a_topic_of_the_same_name_is_another_topic(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        await found[0].admin.create_topic("t", 1, 3)
        before = found[0].image.topics["t"].topic_id
        stale = ChangedPartition("t", before, 0, PartitionState(2, 9, (2,), 1), 50)
        await found[0].admin.delete_topic("t")
        await found[0].admin.create_topic("t", 1, 3)
        state = found[0].state("t")
        found[0].feed.learn([stale])
        assert found[0].state("t") == state
        await until(lambda: all(len(m.replicas.topic("t")) == 1 for m in found))
        assert all(m.replicas.topic("t")[0].topic_id != before for m in found)


@pytest.mark.parametrize("failure", [OSError("no such device"), RuntimeError("a bug")])
async def test_what_replicas_could_not_do_is_done_later(tmp_path: Path, failure: Exception) -> None:
    async with members(tmp_path) as found:
        replicas = found[1].replicas
        replicas.failures = [failure, failure]
        await found[0].admin.create_topic("t", 2, 3)
        await until(lambda: len(replicas.topic("t")) == 2)
        assert not replicas.failures
        replicas.failures = [failure]
        await found[0].admin.delete_topic("t")
        await until(lambda: replicas.deleted == ["t"])


async def test_configs_that_one_broker_changes_are_in_force_on_all(tmp_path: Path) -> None:
    async with members(tmp_path) as found:
        await found[0].admin.create_topic("t", 1, 3)
        await until(lambda: all("t" in m.image.topics for m in found))
        await found[1].admin.alter_topic_configs("t", lambda before: {"retention.ms": "7"})
        await until(lambda: all(m.image.topics["t"].configs == {"retention.ms": "7"} for m in found))
        await until(lambda: all(("t", {"retention.ms": "7"}) in m.replicas.configs for m in found))
        await found[2].admin.alter_broker_configs(None, lambda before: {"log.retention.ms": "99"})
        await until(lambda: all(m.config.get("log.retention.ms") == 99 for m in found))
        await found[1].admin.alter_broker_configs(1, lambda before: {"log.retention.ms": "11"})
        await until(lambda: all(m.image.broker_configs.get(1) == {"log.retention.ms": "11"} for m in found))
        assert [m.config.get("log.retention.ms") for m in found] == [99, 11, 99]
        await found[0].admin.alter_group_configs(
            "g/1", lambda before: {"share.auto.offset.reset": "earliest"}
        )
        await until(lambda: all("g/1" in m.image.group_configs for m in found))
        await found[1].admin.alter_group_configs("g/1", lambda before: {})
        await until(lambda: not any("g/1" in m.image.group_configs for m in found))
        await found[2].admin.alter_client_metrics("m/1", lambda before: {"interval.ms": "500"})
        await until(lambda: all(m.image.client_metrics == {"m/1": {"interval.ms": "500"}} for m in found))
        limited = entity({CLIENT_ID: "c"})
        changes = [QuotaChange("producer_byte_rate", 1000.0)]
        await alter_client_quotas(found[0].store, limited, changes)
        await until(
            lambda: all(m.image.client_quotas == {limited: {"producer_byte_rate": 1000.0}} for m in found)
        )


async def test_what_two_brokers_change_at_once_is_both_in_force(tmp_path: Path) -> None:
    def setting(name: str, value: str) -> Callable[[Mapping[str, str]], dict[str, str]]:
        return lambda before: {**before, name: value}

    limited = entity({CLIENT_ID: "c"})

    def quotas(member: Member, key: str) -> Awaitable[None]:
        changes = [QuotaChange(key, 1000.0)]
        return alter_client_quotas(member.store, limited, changes)

    async with members(tmp_path) as found:
        await found[0].admin.create_topic("t", 1, 3)
        await until(lambda: all("t" in m.image.topics for m in found))
        await asyncio.gather(
            found[0].admin.alter_topic_configs("t", setting("retention.ms", "7")),
            found[1].admin.alter_topic_configs("t", setting("flush.ms", "8")),
            found[0].admin.alter_broker_configs(None, setting("log.retention.ms", "99")),
            found[1].admin.alter_broker_configs(None, setting("log.flush.interval.ms", "98")),
            found[0].admin.alter_group_configs("g", setting("share.auto.offset.reset", "earliest")),
            found[1].admin.alter_group_configs("g", setting("share.isolation.level", "read_committed")),
            quotas(found[0], "producer_byte_rate"),
            quotas(found[1], "consumer_byte_rate"),
        )
        topic = {"retention.ms": "7", "flush.ms": "8"}
        await until(lambda: all(m.image.topics["t"].configs == topic for m in found))
        brokers = {"log.retention.ms": "99", "log.flush.interval.ms": "98"}
        await until(lambda: all(m.image.broker_configs.get(None) == brokers for m in found))
        group = {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"}
        await until(lambda: all(m.image.group_configs.get("g") == group for m in found))
        limits = {limited: {"producer_byte_rate": 1000.0, "consumer_byte_rate": 1000.0}}
        await until(lambda: all(m.image.client_quotas == limits for m in found))


async def test_config_changes_are_told_in_kafkas_words(tmp_path: Path) -> None:
    async with members(tmp_path, 1) as found:
        await found[0].admin.create_topic("t", 1, 1)
        await found[0].admin.alter_topic_configs("t", lambda before: {"retention.ms": "7"})
        [name] = await found[0].store.children(nodes.CONFIG_CHANGES)
        assert name == "config_change_0000000000"
        node = await found[0].store.get(f"{nodes.CONFIG_CHANGES}/{name}")
        assert node.data == b'{"version":2,"entity_path":"topics/t"}'


async def test_what_becomes_of_a_delegation_token_all_brokers_know(tmp_path: Path) -> None:
    ann = KafkaPrincipal("User", "ann")
    async with members(tmp_path, delegation_token_secret_key="secret") as found:
        tokens = [DelegationTokens(member.config, member.store, member.image) for member in found]
        made = await tokens[0].create(ann, ann, [], -1, 1000)
        await until(lambda: all(made.token_id in m.image.delegation_tokens for m in found))
        await tokens[1].renew(tokens[0].hmac(made), ann, 5000, 2000)
        await until(
            lambda: {m.image.delegation_tokens[made.token_id].expires_at for m in found} == {7000},
        )
        short = await tokens[2].create(ann, ann, [], 10, 1000)
        await until(lambda: all(len(m.image.delegation_tokens) == 2 for m in found))
        await tokens[0].remove_expired(2000)
        await until(lambda: all(set(m.image.delegation_tokens) == {made.token_id} for m in found))
        assert short.token_id != made.token_id
        await tokens[2].expire(tokens[0].hmac(made), ann, -1, 2000)
        await until(lambda: not any(m.image.delegation_tokens for m in found))


async def test_tokens_are_read_again_where_notifications_were_missed(tmp_path: Path) -> None:
    ann = KafkaPrincipal("User", "ann")
    async with members(tmp_path, delegation_token_secret_key="secret") as found:
        tokens = DelegationTokens(found[0].config, found[0].store, found[0].image)
        made = await tokens.create(ann, ann, [], -1, 1000)
        await until(lambda: all(made.token_id in m.image.delegation_tokens for m in found))
        found[1].feed.tokens._last = -7  # as if others had come and gone in the meantime
        other = await tokens.create(ann, ann, [], -1, 1000)
        await until(lambda: all(other.token_id in m.image.delegation_tokens for m in found))
        assert made.token_id in found[1].image.delegation_tokens
