"""Whether an unreachable broker is dead depends on the views of the other brokers, over their own links."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla.cluster.controller.failure_detection import SUSPECTS, Suspicions
from ottla.cluster.peers import PeerAddress, PeerDialer
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.stores.embedded import EmbeddedStore
from ottla.metadata.stores.store import ensure_paths
from tests.broker_process import free_port
from tests.cluster.replicated import brokers

ASKER, SUSPECT = 0, 1
EPOCH = 7
LONG = 60.0


def at(port: int, broker_id: int = SUSPECT, epoch: int = EPOCH) -> PeerAddress:
    return PeerAddress(broker_id, epoch, "127.0.0.1", port)


class Registered(PeerDialer):
    """Finds these brokers, regardless of the image."""

    def __init__(self, registered: Mapping[int, PeerAddress]) -> None:
        super().__init__(BrokerConfig.embedded(), ClusterImage())
        self._registered = registered

    def address(self, broker_id: int) -> PeerAddress | None:
        return self._registered.get(broker_id)

    def addresses(self, brokers: Iterable[int] | None = None) -> dict[int, PeerAddress]:
        return super().addresses(self._registered if brokers is None else brokers)


@asynccontextmanager
async def cluster_of(
    tmp_path: Path, count: int, seen_at: Mapping[int, PeerAddress]
) -> AsyncIterator[dict[int, Suspicions]]:
    """Register N brokers. The named brokers are alive, each with its view of the suspect."""
    store = EmbeddedStore(tmp_path / "metadata.db", sync=False)
    await ensure_paths(store, [SUSPECTS])

    def registered(suspect: PeerAddress) -> dict[int, PeerAddress]:
        return {each: at(1, each) for each in range(count)} | {suspect.broker_id: suspect}

    found = {each: Suspicions(store, each, Registered(registered(seen))) for each, seen in seen_at.items()}
    try:
        for each in found.values():
            each.start()
        yield found
    finally:
        for each in found.values():
            await each.stop()
        await store.close()


async def test_it_is_gone_if_most_are_refused_though_it_says_that_it_lives(tmp_path: Path) -> None:
    """A broker that reaches too few others cannot lead, alive or not."""
    refused = at(free_port())
    async with cluster_of(tmp_path, 3, dict.fromkeys(range(3), refused)) as found:
        assert await found[ASKER].is_gone(refused, LONG)


async def test_it_is_there_if_somebody_reaches_it(tmp_path: Path) -> None:
    refused = at(free_port())
    async with brokers(tmp_path, 1) as running:
        there = at(running.servers[0].port)
        async with cluster_of(tmp_path, 3, {ASKER: refused, 2: there}) as found:
            assert not await found[ASKER].is_gone(refused)


async def test_it_is_there_if_nobody_else_is_left_and_it_says_that_it_lives(tmp_path: Path) -> None:
    refused = at(free_port())
    async with cluster_of(tmp_path, 2, {ASKER: refused, SUSPECT: refused}) as found:
        assert not await found[ASKER].is_gone(refused)


async def test_a_few_that_are_cut_off_together_do_not_make_a_majority(tmp_path: Path) -> None:
    refused = at(free_port())
    async with brokers(tmp_path, 1) as running:
        there = at(running.servers[0].port)
        views = {ASKER: refused, 2: refused, SUSPECT: there, 3: there, 4: there}
        async with cluster_of(tmp_path, 5, views) as found:
            both = await asyncio.gather(found[ASKER].is_gone(refused), found[2].is_gone(refused))
            assert both == [False, False]


async def test_most_that_are_cut_off_from_a_few_find_them_gone(tmp_path: Path) -> None:
    refused = at(free_port())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        views = dict.fromkeys((ASKER, 2, 3), refused) | {4: at(silent.getsockname()[1])}
        async with cluster_of(tmp_path, 5, views) as found:
            assert await found[ASKER].is_gone(refused, LONG)


@pytest.mark.parametrize("others", [[], [2]])
async def test_it_is_gone_if_nobody_answers(tmp_path: Path, others: list[int]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = at(silent.getsockname()[1])
        async with cluster_of(tmp_path, 3, dict.fromkeys([ASKER, *others], target)) as found:
            assert await found[ASKER].is_gone(target, 0.2)


async def test_others_who_are_there_are_waited_for(tmp_path: Path) -> None:
    refused = at(free_port())
    async with brokers(tmp_path, 1) as running:
        there = at(running.servers[0].port)
        store = EmbeddedStore(tmp_path / "metadata.db", sync=False)
        await ensure_paths(store, [SUSPECTS])
        registered = {ASKER: at(1, ASKER), SUSPECT: refused, 2: at(there.port, 2)}
        asker = Suspicions(store, ASKER, Registered(registered))
        busy = Suspicions(store, 2, Registered(registered | {SUSPECT: there}))
        asker.start()
        try:
            asked = asyncio.create_task(asker.is_gone(refused, 2.0))
            await asyncio.sleep(2.2)
            assert not asked.done()
            busy.start()
            await busy._answer()
            assert not await asked
        finally:
            await asker.stop()
            await busy.stop()
            await store.close()


async def test_the_next_life_of_a_broker_does_not_speak_for_the_last_one(tmp_path: Path) -> None:
    port = free_port()
    before, now = at(port), at(port, epoch=EPOCH + 1)
    async with cluster_of(tmp_path, 2, {ASKER: now, SUSPECT: now}) as found:
        assert await found[ASKER].is_gone(before, 0.2)


async def test_two_who_ask_at_once_answer_each_other(tmp_path: Path) -> None:
    refused = at(free_port())
    async with cluster_of(tmp_path, 3, {ASKER: refused, 2: refused}) as found:
        assert await asyncio.gather(*(each.is_gone(refused, LONG) for each in found.values())) == [True, True]
