"""Whether a broker that refuses is gone: that depends on what others see of it, over their own links."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla.cluster.failure_detection import Target
from ottla.cluster.suspicions import SUSPECTS, Suspicions
from ottla.metadata.embedded import EmbeddedStore
from ottla.metadata.store import ensure_paths
from tests.broker_process import free_port
from tests.cluster.replicated import brokers

ASKER, SUSPECT, THIRD = 0, 1, 2
EPOCH = 7
LONG = 60.0


def suspect_at(port: int, epoch: int = EPOCH) -> Target:
    return Target(SUSPECT, epoch, "127.0.0.1", port)


@asynccontextmanager
async def asked_by(tmp_path: Path, **seen_at: Target) -> AsyncIterator[Suspicions]:
    """Who asks, beside others that see the suspect where it is given for them."""
    store = EmbeddedStore(tmp_path / "metadata.db", sync=False)
    await ensure_paths(store, [SUSPECTS])
    ids = {"asker": ASKER, "suspect": SUSPECT, "third": THIRD}
    found = {
        who: Suspicions(store, ids[who], lambda target=target: {SUSPECT: target})  # type: ignore[misc]
        for who, target in {"asker": suspect_at(1), **seen_at}.items()
    }
    try:
        for each in found.values():
            each.start()
        yield found["asker"]
        assert await store.children(SUSPECTS) == []
    finally:
        for each in found.values():
            await each.stop()
        await store.close()


async def test_it_is_gone_if_a_second_one_is_refused_though_it_says_that_it_lives(tmp_path: Path) -> None:
    """Whoever reaches nobody cannot lead, alive or not."""
    refused = suspect_at(free_port())
    async with asked_by(tmp_path, third=refused, suspect=refused) as asker:
        assert await asker.is_gone(refused, LONG)


async def test_it_is_there_if_somebody_reaches_it(tmp_path: Path) -> None:
    async with brokers(tmp_path, 1) as cluster:
        there = suspect_at(cluster.servers[0].port)
        async with asked_by(tmp_path, third=there) as asker:
            assert not await asker.is_gone(there, LONG)


async def test_it_is_there_if_only_the_suspect_answers(tmp_path: Path) -> None:
    """And a third one that is cut off from it as well hears nothing at all."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = suspect_at(silent.getsockname()[1])
        async with asked_by(tmp_path, third=target, suspect=target) as asker:
            assert not await asker.is_gone(target)


@pytest.mark.parametrize("others", [[], ["third"]])
async def test_it_is_gone_if_nobody_answers(tmp_path: Path, others: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = suspect_at(silent.getsockname()[1])
        async with asked_by(tmp_path, **dict.fromkeys(others, target)) as asker:
            assert await asker.is_gone(target, 0.2)


async def test_the_next_life_of_a_broker_does_not_speak_for_the_last_one(tmp_path: Path) -> None:
    port = free_port()
    async with asked_by(tmp_path, suspect=suspect_at(port, EPOCH + 1)) as asker:
        assert await asker.is_gone(suspect_at(port), 0.2)


async def test_two_who_ask_at_once_answer_each_other(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "metadata.db", sync=False)
    await ensure_paths(store, [SUSPECTS])
    target = suspect_at(free_port())
    both = [Suspicions(store, each, lambda: {SUSPECT: target}) for each in (ASKER, THIRD)]
    try:
        for each in both:
            each.start()
        assert await asyncio.gather(*(each.is_gone(target, LONG) for each in both)) == [True, True]
    finally:
        for each in both:
            await each.stop()
        await store.close()
