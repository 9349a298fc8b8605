"""Broker registration: creating it, finding an old one in its place, and losing it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla.cluster.membership import FORMAT, Membership, generate_broker_id, join_cluster
from ottla.metadata import nodes
from ottla.metadata.cluster_image import ClusterImage, read_brokers
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.nodes import BrokerRegistration, Endpoint
from ottla.metadata.stores.embedded import EmbeddedStore
from ottla.metadata.stores.store import StoreError
from tests.cluster.members import until


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[EmbeddedStore]:
    store = EmbeddedStore(directory / "metadata.db", sync=False)
    await join_cluster(store)
    try:
        yield store
    finally:
        await store.close()


def member(store: EmbeddedStore, image: ClusterImage, port: int = 9092, seconds: float = 5.0) -> Membership:
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "localhost", port)
    return Membership(store, image, lambda: BrokerRegistration(1, (endpoint,)), seconds)


async def test_the_first_broker_names_the_cluster_and_the_others_use_the_name(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        first = await join_cluster(store)
        assert len(first) == 22
        assert await join_cluster(store) == first


async def test_metadata_of_a_newer_release_is_refused_with_one_sentence(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.create(FORMAT, b'{"version": 1, "format": 1}')
        await join_cluster(store)
        await store.set(FORMAT, b'{"version": 2, "format": 2, "reason": "later"}')
        with pytest.raises(
            StoreError, match=r"format 2 of a newer Ottla, and Ottla \S+ reads formats up to 1: start"
        ):
            await join_cluster(store)
        await store.set(FORMAT, b"2")
        with pytest.raises(StoreError, match="is damaged"):
            await join_cluster(store)


async def test_ids_that_nobody_gave_begin_above_those_of_operators(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        config = BrokerConfig({})
        assert [await generate_broker_id(store, config) for _ in range(2)] == [1001, 1002]
        with pytest.raises(StoreError, match="give the broker an id"):
            await generate_broker_id(store, BrokerConfig({"broker.id.generation.enable": "false"}))


async def test_the_epoch_of_a_broker_is_that_of_its_registration(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        membership = member(store, ClusterImage())
        await membership.register()
        [broker] = await read_brokers(store)
        assert (broker.broker_id, broker.epoch) == (1, membership.epoch)


async def test_the_node_of_a_life_before_gives_way(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        before = member(store, ClusterImage())
        await before.register()
        again = member(store, ClusterImage())
        await asyncio.wait_for(again.register(), 15)
        assert again.epoch > before.epoch


async def test_another_brokers_node_does_not_give_way(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await member(store, ClusterImage(), 9092).register()
        impostor = member(store, ClusterImage(), 9093, seconds=-1)
        with pytest.raises(StoreError, match="Broker 1 is registered already, at PLAINTEXT://localhost:9092"):
            await impostor.register()


async def test_a_broker_waits_for_the_end_of_another_session(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await member(store, ClusterImage(), 9092).register()
        moved = asyncio.ensure_future(member(store, ClusterImage(), 9093).register())
        await asyncio.sleep(0.05)
        assert not moved.done()
        await store.delete(nodes.broker_path(1))
        await asyncio.wait_for(moved, 30)


async def test_a_broker_that_was_taken_for_dead_registers_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        image = ClusterImage()
        membership = member(store, image)
        await membership.register()
        before = membership.epoch
        membership.check()  # a stale image is no reason to fail
        await store.delete(nodes.broker_path(1))
        await asyncio.sleep(0.05)
        membership.check()
        await until(lambda: membership.epoch > before)
        await membership.leave()
        assert await store.children(nodes.BROKER_IDS) == []
        membership.check()
        assert await store.children(nodes.BROKER_IDS) == []
