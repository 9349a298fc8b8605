"""Telling dead brokers from brokers that only seem dead."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ottla.cluster.controller.failure_detection import FailureDetector, Presence, Probed, probe
from ottla.cluster.peers import PeerAddress, PeerDialer
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.stores.store import StoreError
from tests.cluster.members import until
from tests.cluster.replicated import brokers

DIALER = PeerDialer(BrokerConfig.embedded(), ClusterImage())


class Told:
    def __init__(self) -> None:
        self.gone: list[int] = []
        self.back: list[int] = []
        self.asked: list[int] = []
        self.answers: list[bool | StoreError] = []  # other brokers' views; without any, they are refused too
        self.detector = FailureDetector(
            DIALER,
            self._is_gone,
            lambda target: self.gone.append(target.broker_id),
            lambda target: self.back.append(target.broker_id),
        )

    async def _is_gone(self, target: PeerAddress) -> bool:
        self.asked.append(target.broker_id)
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, StoreError):
            raise answer
        return answer


class Listening:
    """A broker from the kernel's point of view: it listens but need not accept."""

    def __init__(self, port: int = 0) -> None:
        self.socket = socket.create_server(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.port: int = self.socket.getsockname()[1]
        self.accepted: list[socket.socket] = []

    async def accept(self) -> None:
        accepted, _ = await asyncio.get_running_loop().sock_accept(self.socket)
        self.accepted.append(accepted)

    def hang_up(self) -> None:
        for each in self.accepted:
            each.close()
        self.accepted.clear()

    def die(self) -> None:
        self.socket.close()
        self.hang_up()


@asynccontextmanager
async def watching(listening: Listening) -> AsyncIterator[Told]:
    told = Told()
    told.detector.watch({1: PeerAddress(1, 7, "127.0.0.1", listening.port)})
    try:
        yield told
    finally:
        await told.detector.stop()
        listening.die()


async def test_a_broker_serves_only_when_it_answers(tmp_path: Path) -> None:
    starting = Listening()
    at_work = PeerAddress(1, 7, "127.0.0.1", starting.port)
    assert await probe(DIALER, at_work, seconds=0.2) == Probed(Presence.SILENT)
    starting.die()
    assert await probe(DIALER, at_work) == Probed(Presence.GONE)
    async with brokers(tmp_path, 1) as cluster:
        there = await probe(DIALER, PeerAddress(0, 7, "127.0.0.1", cluster.servers[0].port))
        assert there.presence is Presence.SERVING
        assert there.apis


async def test_a_process_that_dies_is_noticed_at_once() -> None:
    async with watching(broker := Listening()) as told:
        await broker.accept()
        began = asyncio.get_running_loop().time()
        broker.die()
        await until(lambda: told.gone == [1])
        assert asyncio.get_running_loop().time() - began < 10, "long before its session ends"


async def test_a_broker_that_closes_idle_connections_is_there() -> None:
    async with watching(broker := Listening()) as told:
        for _ in range(3):
            await broker.accept()
            broker.hang_up()
        await broker.accept()
        assert told.gone == []


async def test_a_broker_that_does_not_accept_is_merely_busy() -> None:
    async with watching(broker := Listening()) as told:
        await broker.accept()
        broker.hang_up()
        await asyncio.sleep(0.3)  # the kernel accepts the next connection, the broker does not
        assert told.gone == []


async def test_one_that_was_never_reached_proves_nothing() -> None:
    broker = Listening()
    broker.die()
    async with watching(broker) as told:
        await asyncio.sleep(0.2)
        assert told.gone == []


async def test_one_that_comes_back_is_told() -> None:
    async with watching(broker := Listening()) as told:
        await broker.accept()
        broker.die()
        await until(lambda: told.gone == [1])
        again = Listening(broker.port)
        await until(lambda: told.back == [1])
        again.die()
        await until(lambda: told.gone == [1, 1])


async def test_who_is_not_watched_any_more_is_not_told_of() -> None:
    async with watching(broker := Listening()) as told:
        await broker.accept()
        told.detector.watch({})
        broker.die()
        await asyncio.sleep(0.1)
        assert told.gone == []


async def test_one_that_others_reach_is_not_gone_until_it_was_reached_and_refuses_again() -> None:
    async with watching(broker := Listening()) as told:
        told.answers = [False]
        await broker.accept()
        broker.die()
        await until(lambda: told.asked == [1])
        again = Listening(broker.port)
        await again.accept()
        assert told.gone == []
        again.die()
        await until(lambda: told.gone == [1])
        assert told.back == []


async def test_others_are_asked_again_while_they_cannot_be_asked() -> None:
    async with watching(broker := Listening()) as told:
        told.answers = [StoreError("The store is away"), True]
        await broker.accept()
        broker.die()
        await until(lambda: told.gone == [1])
        assert told.asked == [1, 1]
