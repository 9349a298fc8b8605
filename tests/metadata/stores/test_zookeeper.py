"""ZooKeeper-specific behaviour of its store: sessions, leases, ensembles. test_store.py has the rest."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from kazoo.client import KazooClient, KazooState

from ottla.metadata.stores.store import StoreError, ensure_paths
from ottla.metadata.stores.zookeeper import SessionState, StoreUnavailable, ZooKeeperStore
from ottla.testing import ZooKeeper
from ottla.testing.ports import free_ports

pytestmark = pytest.mark.cluster


async def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.01)


def expire(zookeeper: ZooKeeper, store: ZooKeeperStore) -> None:
    """End the store's session from outside, with a second client that uses its id and password."""
    assert store._session.is_open
    thief = KazooClient(zookeeper.connect, client_id=store._session.kazoo.client_id)
    thief.start()
    thief.stop()
    thief.close()


async def test_after_a_lost_session_a_new_one_begins_and_is_told(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    store = ZooKeeperStore(f"{zookeeper.connect}/{tmp_path.name}", session_timeout=2)
    told: list[SessionState] = []
    seen: list[str] = []
    store.on_session.append(told.append)
    try:
        await store.create("/mine", ephemeral=True)
        store.watch("/watched", seen.append)
        first = store.session_id
        expire(zookeeper, store)
        await until(lambda: SessionState.EXPIRED in told)
        assert store.session_id != first
        assert await store.exists("/mine") is None
        await until(lambda: bool(seen))  # notified to read again, whatever the change
        seen.clear()
        await store.create("/watched")
        await until(lambda: seen == ["/watched"])
    finally:
        await store.close()


async def test_hundreds_of_watches_outlive_a_session(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    store = ZooKeeperStore(f"{zookeeper.connect}/{tmp_path.name}", session_timeout=4)
    try:
        paths = [f"/{number:03}" for number in range(250)]
        await ensure_paths(store, paths)
        seen: set[str] = set()
        for path in paths:
            store.watch(path, seen.add)
        expire(zookeeper, store)
        await until(lambda: seen == set(paths))
        seen.clear()
        for path in paths[::50]:
            await store.set(path, b"x")
        await until(lambda: seen >= set(paths[::50]))
    finally:
        await store.close()


async def test_the_first_connection_is_waited_for_longer_than_answers(tmp_path: Path) -> None:
    with ZooKeeper(data=tmp_path) as zookeeper:
        zookeeper.kill()
        store = ZooKeeperStore(zookeeper.connect, session_timeout=0.5, connection_timeout=60)
        try:
            opened = asyncio.ensure_future(store.open())
            await asyncio.sleep(1)
            assert not opened.done()
            await asyncio.to_thread(zookeeper.restart)
            await opened
            assert await store.exists("/") is not None
        finally:
            await store.close()


async def test_the_lease_ends_before_a_session_that_nobody_answers_for(tmp_path: Path) -> None:
    with ZooKeeper(data=tmp_path) as zookeeper:
        store = ZooKeeperStore(zookeeper.connect, session_timeout=1.5, operation_timeout=0.5)
        try:
            await store.open()
            assert store.lease_until > time.monotonic()
            before = store.lease_until
            await until(lambda: store.lease_until > before)  # renewed while the server responds
            zookeeper.pause()
            paused = time.monotonic()
            await until(lambda: time.monotonic() > store.lease_until)
            assert store.lease_until < paused + 1.5
            zookeeper.resume()
            await until(lambda: time.monotonic() < store.lease_until)
        finally:
            await store.close()


async def test_the_lease_ends_before_the_session_where_a_server_answers_and_has_lost_the_others(
    tmp_path: Path,
) -> None:
    """An isolated server takes some time to notice, and keeps responding to reads and pings."""
    with ZooKeeper(3, data=tmp_path, faults=True) as zookeeper:
        cut_off = next(each for each in zookeeper.servers if each != zookeeper.leader())
        rest = [server.address for each, server in zookeeper.servers.items() if each != cut_off]
        store = ZooKeeperStore(zookeeper.servers[cut_off].address, session_timeout=2.5)
        observer = ZooKeeperStore(",".join(rest), session_timeout=10)
        try:
            await store.create("/here", ephemeral=True)
            before = store.lease_until
            await until(lambda: store.lease_until > before)
            gone: list[str] = []
            observer.watch("/here", gone.append)
            assert await observer.exists("/here") is not None
            zookeeper.cut(cut_off)
            await until(lambda: bool(gone))
            assert await observer.exists("/here") is None
            assert store.lease_until < time.monotonic()
            zookeeper.heal()
            await until(lambda: store.lease_until > time.monotonic())  # for a new session
        finally:
            await store.close()
            await observer.close()


async def test_the_lease_is_of_the_session_that_was_granted(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    asked, granted = 600.0, 60.0  # at most
    store = ZooKeeperStore(f"{zookeeper.connect}/{tmp_path.name}", session_timeout=asked)
    try:
        await store.open()
        assert time.monotonic() < store.lease_until < time.monotonic() + granted
    finally:
        await store.close()


async def test_a_connection_that_is_lost_again_at_once_changes_nothing(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    store = ZooKeeperStore(f"{zookeeper.connect}/{tmp_path.name}", session_timeout=2)
    told: list[SessionState] = []
    try:
        await store.open()
        store.on_session.append(told.append)
        with mock.patch.object(KazooClient, "client_id", None):
            store._session._session_changed(KazooState.CONNECTED)
        assert told == []
        await store.sync()
    finally:
        await store.close()


async def test_an_ensemble_goes_on_without_one_of_three(tmp_path: Path) -> None:
    with ZooKeeper(3, data=tmp_path) as zookeeper:
        store = ZooKeeperStore(zookeeper.connect, session_timeout=6)
        try:
            await store.create("/kept", b"1")
            told: list[str] = []
            store.watch("/kept", told.append)
            for server in (1, 2, 3):
                zookeeper.kill(server)
                assert (await store.get("/kept")).data == str(server).encode()
                with contextlib.suppress(StoreUnavailable):  # in flight when its server died
                    await store.set("/kept", str(server + 1).encode())
                if (await store.get("/kept")).data != str(server + 1).encode():
                    await store.set("/kept", str(server + 1).encode())
                await until(lambda: bool(told))
                told.clear()
                zookeeper.restart(server)
        finally:
            await store.close()


async def test_nobody_there_is_one_sentence() -> None:
    [port] = free_ports(1)
    store = ZooKeeperStore(f"127.0.0.1:{port}", session_timeout=4, operation_timeout=0.3)
    with pytest.raises(StoreError, match=f"^ZooKeeper at 127.0.0.1:{port} cannot be reached.$"):
        await store.open()
    await store.close()


async def test_thousands_of_nodes_are_read_at_once(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    from ottla.metadata.stores.store import Create

    store = ZooKeeperStore(f"{zookeeper.connect}/{tmp_path.name}", session_timeout=10)
    try:
        for start in range(0, 3000, 500):
            await store.multi([Create(f"/n{n}", str(n).encode()) for n in range(start, start + 500)])
        found = await store.get_many([f"/n{n}" for n in range(3001)])
        assert [node.data for node in found if node is not None] == [str(n).encode() for n in range(3000)]
        assert found[3000] is None
    finally:
        await store.close()
