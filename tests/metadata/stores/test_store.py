"""Promises of every metadata store. A new store joins with a line in STORES."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from ottla.metadata.credentials import load_salt_secret
from ottla.metadata.stores.embedded import EmbeddedStore
from ottla.metadata.stores.store import (
    BadPath,
    BadVersion,
    Check,
    Create,
    Delete,
    EphemeralParent,
    Node,
    NodeExists,
    NodeStore,
    NoNode,
    NotEmpty,
    Set,
    ensure_paths,
)
from ottla.metadata.stores.zookeeper import ZooKeeperStore

# Each entry creates an unopened store, over the same data for the same directory.
STORES: dict[str, Callable[[Path, str], NodeStore]] = {
    "embedded": lambda directory, _: EmbeddedStore(directory / "metadata.db", sync=False),
    "zookeeper": lambda directory, connect: ZooKeeperStore(f"{connect}/{directory.name}", session_timeout=4),
}
Opener = Callable[[], contextlib.AbstractAsyncContextManager[NodeStore]]


@pytest.fixture(params=["embedded", pytest.param("zookeeper", marks=pytest.mark.cluster)])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    connect = request.getfixturevalue("zookeeper").connect if request.param == "zookeeper" else ""

    @contextlib.asynccontextmanager
    async def open_store() -> AsyncIterator[NodeStore]:
        store = STORES[request.param](tmp_path, connect)
        try:
            yield store
        finally:
            await store.close()

    return open_store


async def settle() -> None:
    """Let watchers run, until the last one has seen all earlier writes."""
    await asyncio.sleep(0.1)


async def test_all_brokers_share_one_salt_secret(opened: Opener) -> None:
    async with opened() as store:
        first, second = await asyncio.gather(load_salt_secret(store), load_salt_secret(store))
        assert len(first) == 32
        assert first == second == await load_salt_secret(store)


class TestNodes:
    async def test_a_node_has_the_data_it_was_created_with_and_version_0(self, opened: Opener) -> None:
        async with opened() as store:
            assert await store.create("/a", b"data") == "/a"
            assert await store.get("/a") == (b"data", 0)

    async def test_each_set_counts_the_version_up(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/a")
            assert [await store.set("/a", b"x"), await store.set("/a", b"y")] == [1, 2]
            assert await store.get("/a") == Node(b"y", 2)

    async def test_a_set_against_an_old_version_is_refused_and_changes_nothing(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/a", b"0")
            await store.set("/a", b"1", version=0)
            with pytest.raises(BadVersion, match="/a has changed"):
                await store.set("/a", b"2", version=0)
            assert await store.get("/a") == (b"1", 1)

    async def test_of_writers_that_read_the_same_version_one_wins(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/a")
            writes = [store.set("/a", bytes([n]), version=0) for n in range(10)]
            results = await asyncio.gather(*writes, return_exceptions=True)
            assert [result for result in results if not isinstance(result, BadVersion)] == [1]

    async def test_a_deleted_node_is_gone(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/a")
            await store.delete("/a")
            assert await store.exists("/a") is None
            with pytest.raises(NoNode):
                await store.get("/a")

    async def test_a_delete_against_an_old_version_is_refused(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/a")
            await store.set("/a", b"1")
            with pytest.raises(BadVersion):
                await store.delete("/a", version=0)
            await store.delete("/a", version=1)

    @pytest.mark.parametrize("operation", ["get", "children", "set", "delete"])
    async def test_what_does_not_exist_is_said_to_not_exist(self, opened: Opener, operation: str) -> None:
        async with opened() as store:
            arguments = ("/none", b"") if operation == "set" else ("/none",)
            with pytest.raises(NoNode, match="/none does not exist"):
                await getattr(store, operation)(*arguments)

    async def test_a_node_is_created_once(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/a", b"first")
            with pytest.raises(NodeExists):
                await store.create("/a", b"second")
            assert (await store.get("/a")).data == b"first"

    async def test_a_node_created_again_starts_at_version_0_with_a_higher_id(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/a")
            await store.set("/a", b"1")
            before = await store.exists("/a")
            await store.delete("/a")
            await store.create("/a")
            after = await store.exists("/a")
            assert before is not None
            assert after is not None
            assert after.version == 0
            assert after.czxid > before.czxid

    @pytest.mark.parametrize("path", ["", "a", "/a/", "//", "/a//b", "/a/./b", "/a/../b", "/a\0"])
    async def test_a_path_has_to_be_one(self, opened: Opener, path: str) -> None:
        async with opened() as store:
            with pytest.raises(BadPath):
                await store.create(path)

    async def test_many_are_read_at_once_with_none_for_the_missing(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/a", b"1")
            await store.create("/c", b"3")
            assert await store.get_many(["/c", "/b", "/a"]) == [(b"3", 0), None, (b"1", 0)]


class TestTree:
    async def test_a_parent_comes_before_its_children(self, opened: Opener) -> None:
        async with opened() as store:
            with pytest.raises(NoNode):
                await store.create("/a/b")

    async def test_a_parent_goes_after_its_children(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/a")
            await store.create("/a/b")
            with pytest.raises(NotEmpty):
                await store.delete("/a")
            await store.delete("/a/b")
            await store.delete("/a")

    async def test_children_are_named_in_order(self, opened: Opener) -> None:
        async with opened() as store:
            for path in ("/t", "/t/b", "/t/a", "/t/c", "/t/a/deep"):
                await store.create(path)
            assert await store.children("/t") == ["a", "b", "c"]
            stat = await store.exists("/t")
            assert stat is not None
            assert stat.child_count == 3

    async def test_missing_paths_are_made_and_existing_ones_left(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/a", b"kept")
            await ensure_paths(store, ["/a/b/c", "/d", "/a"])
            await ensure_paths(store, ["/a/b/c", "/d"])
            assert await store.get("/a") == (b"kept", 0)
            assert await store.children("/a/b") == ["c"]


class TestSequentialAndEphemeral:
    async def test_sequential_nodes_are_numbered_by_their_parent(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/q")
            paths = [await store.create("/q/n_", sequential=True) for _ in range(3)]
            assert paths == ["/q/n_0000000000", "/q/n_0000000001", "/q/n_0000000002"]

    async def test_a_number_is_not_given_twice(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/q")
            first = await store.create("/q/n", sequential=True)
            await store.delete(first)
            assert await store.create("/q/n", sequential=True) > first

    async def test_an_ephemeral_node_goes_with_the_store_that_made_it(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/stays")
            await store.create("/stays/goes", ephemeral=True)
            stat = await store.exists("/stays/goes")
            assert stat is not None
            assert stat.ephemeral
        async with opened() as store:
            assert await store.children("/stays") == []

    async def test_an_ephemeral_node_has_no_children(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/e", ephemeral=True)
            with pytest.raises(EphemeralParent):
                await store.create("/e/child")

    async def test_ids_go_on_growing_over_a_restart(self, opened: Opener) -> None:
        czxids = []
        for _ in range(3):
            async with opened() as store:
                await store.create("/e", ephemeral=True)
                stat = await store.exists("/e")
                assert stat is not None
                czxids.append(stat.czxid)
        assert czxids == sorted(set(czxids))


class TestMulti:
    async def test_all_of_it_is_done_and_each_result_returned(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/old")
            results = await store.multi(
                [Create("/a"), Create("/a/b", b"x"), Set("/a", b"y"), Check("/a", 1), Delete("/old")]
            )
            assert results == ["/a", "/a/b", 1, None, None]
            assert await store.get("/a") == (b"y", 1)
            assert await store.exists("/old") is None

    async def test_or_none_of_it(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/old", b"old")
            with pytest.raises(NodeExists) as caught:
                await store.multi([Create("/new"), Set("/old", b"new"), Create("/old")])
            assert caught.value.path == "/old"
            assert await store.children("/") in (["old"], ["old", "zookeeper"])
            assert await store.get("/old") == (b"old", 0)

    async def test_a_check_guards_the_rest(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/epoch")
            await store.set("/epoch", b"2")
            with pytest.raises(BadVersion):
                await store.multi([Check("/epoch", 0), Create("/a")])
            assert await store.exists("/a") is None


class TestWatches:
    async def test_a_node_that_comes_changes_and_goes_is_told(self, opened: Opener) -> None:
        async with opened() as store:
            told: list[str] = []
            store.watch("/a", told.append)
            for step in (store.create("/a"), store.set("/a", b"1"), store.delete("/a")):
                before = len(told)
                await step
                await settle()
                assert len(told) > before
            assert set(told) == {"/a"}

    async def test_children_that_come_and_go_are_told_but_not_their_changes(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/p")
            told: list[str] = []
            store.watch("/p", told.append, children=True)
            await store.create("/p/a")
            await settle()
            assert told == ["/p"]
            await store.set("/p/a", b"1")
            await store.set("/p", b"1")
            await settle()
            assert told == ["/p"]
            await store.delete("/p/a")
            await settle()
            assert told == ["/p", "/p"]

    async def test_the_change_can_be_read_when_it_is_told(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/a", b"0")
            seen: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

            async def read() -> None:
                seen.set_result((await store.get("/a")).data)

            tasks: list[asyncio.Task[None]] = []
            store.watch("/a", lambda _: tasks.append(asyncio.ensure_future(read())))
            await store.set("/a", b"1")
            assert await asyncio.wait_for(seen, 30) == b"1"

    async def test_a_watch_that_was_cancelled_is_silent_and_only_that_one(self, opened: Opener) -> None:
        async with opened() as store:
            told: list[str] = []
            cancel = store.watch("/a", told.append)
            store.watch("/a", told.append)
            cancel()
            cancel()
            await store.create("/a")
            await settle()
            assert told == ["/a"]

    async def test_a_refused_write_is_not_told(self, opened: Opener) -> None:
        async with opened() as store:
            await store.create("/a")
            told: list[str] = []
            store.watch("/a", told.append)
            with pytest.raises(BadVersion):
                await store.set("/a", b"", version=7)
            await settle()
            assert told == []

    async def test_a_watcher_that_fails_disturbs_nobody(self, opened: Opener) -> None:
        async with opened() as store:
            failures: list[object] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
            told: list[str] = []

            def fail(path: str) -> None:
                raise RuntimeError(path)

            store.watch("/a", fail)
            store.watch("/a", told.append)
            await store.create("/a")
            await settle()
            assert told == ["/a"]
            assert len(failures) == 1
