"""The embedded store: surviving file damage, and reporting it."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.metadata.stores.embedded import EmbeddedStore
from ottla.metadata.stores.node_file import NodeFile, Row
from ottla.metadata.stores.store import Create, Delete, NodeError, Operation, Set, StoreError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "metadata.db"


async def test_nodes_versions_and_numbers_survive_a_reopen(file: Path) -> None:
    store = EmbeddedStore(file)
    await store.create("/a", b"0")
    await store.set("/a", b"1")
    await store.create("/a/n", sequential=True)
    await store.create("/gone")
    await store.delete("/gone")
    before = await store.exists("/a")
    await store.close()

    store = EmbeddedStore(file)
    assert await store.get("/a") == (b"1", 1)
    assert await store.exists("/a") == before
    assert await store.exists("/gone") is None
    assert await store.create("/a/n", sequential=True) == "/a/n0000000001"
    await store.close()


async def test_a_node_that_became_ephemeral_is_not_on_disk_any_more(file: Path) -> None:
    store = EmbeddedStore(file)
    await store.create("/a", b"lasting")
    await store.multi([Delete("/a"), Create("/a", b"passing", ephemeral=True)])
    await store.close()
    store = EmbeddedStore(file)
    assert await store.exists("/a") is None
    await store.close()


async def test_a_new_file_is_open_after_at_most_15_ms_of_work(tmp_path: Path) -> None:
    times = []
    for attempt in range(5):
        store = EmbeddedStore(tmp_path / f"{attempt}.db")
        start = time.process_time()  # CPU time of all threads, independent of the machine's load
        await store.open()
        times.append(time.process_time() - start)
        await store.close()
    assert min(times) < 0.015


async def test_writes_that_wait_share_a_commit(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = []
    commit = NodeFile.commit

    def counted(self: NodeFile, rows: Sequence[Row], deleted: Sequence[str]) -> None:
        commits.append(len(rows))
        commit(self, rows, deleted)

    monkeypatch.setattr(NodeFile, "commit", counted)
    store = EmbeddedStore(file)
    await store.open()
    await asyncio.gather(*(store.create(f"/{n}") for n in range(100)))
    assert sum(commits) == 100
    assert len(commits) < 10
    await store.close()


async def test_a_commit_that_fails_is_told_to_its_writers_and_leaves_no_trace(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EmbeddedStore(file)
    await store.create("/a", b"0")
    told: list[str] = []
    store.watch("/a", told.append)

    def fail(self: NodeFile, rows: Sequence[Row], deleted: Sequence[str]) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(NodeFile, "commit", fail)
        with pytest.raises(StoreError, match="disk is full"):
            await store.set("/a", b"1")
    assert await store.get("/a") == (b"0", 0)
    assert told == []
    assert await store.set("/a", b"2") == 1
    await store.close()


async def test_a_full_disk_is_one_sentence(file: Path) -> None:
    store = EmbeddedStore(file)
    await store.open()
    assert store._file._connection is not None
    store._file._connection.execute("PRAGMA max_page_count = 10")
    with pytest.raises(StoreError, match="the disk is full: make room on it"):
        await store.create("/big", bytes(1_000_000))
    assert await store.exists("/big") is None
    await store.create("/small")
    await store.close()


async def test_a_writer_that_gives_up_waiting_does_not_stop_the_others(file: Path) -> None:
    store = EmbeddedStore(file)
    await store.open()
    impatient = asyncio.ensure_future(store.create("/a"))
    patient = asyncio.ensure_future(store.create("/b"))
    await asyncio.sleep(0)
    impatient.cancel()
    assert await patient == "/b"
    await store.close()


async def test_a_closed_store_says_so(file: Path) -> None:
    store = EmbeddedStore(file)
    await store.create("/a")
    await store.close()
    await store.close()
    with pytest.raises(StoreError, match="is closed"):
        await store.get("/a")


async def test_closing_waits_for_writes_under_way(file: Path) -> None:
    store = EmbeddedStore(file)
    await store.open()
    writes = [asyncio.ensure_future(store.create(f"/{n}")) for n in range(20)]
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*writes) == [f"/{n}" for n in range(20)]


async def test_a_file_that_is_in_use_is_refused(file: Path) -> None:
    first, second = EmbeddedStore(file), EmbeddedStore(file)
    await first.open()
    with pytest.raises(StoreError, match="in use by another broker: stop that one, or use another directory"):
        await second.open()
    await second.close()
    await first.close()


def test_a_file_that_is_something_else_is_refused(file: Path) -> None:
    file.write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError, match="is damaged: SQLite cannot read it"):
        asyncio.run(EmbeddedStore(file).open())


async def test_a_database_of_somebody_else_is_refused_and_left_alone(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    with pytest.raises(StoreError, match="not a metadata store of Ottla"):
        await EmbeddedStore(file).open()
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    connection.close()


async def test_a_file_of_a_newer_version_is_refused(file: Path) -> None:
    store = EmbeddedStore(file)
    await store.open()
    await store.close()
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="written by a newer Ottla"):
        await EmbeddedStore(file).open()


def test_a_flipped_bit_in_a_node_is_found_and_named(file: Path) -> None:
    async def write() -> None:
        store = EmbeddedStore(file)
        await store.create("/precious", b"the data of the node")
        await store.close()

    asyncio.run(write())
    content = file.read_bytes()
    at = content.index(b"the data of the node")
    file.write_bytes(content[:at] + b"T" + content[at + 1 :])
    with pytest.raises(StoreError, match="is damaged: the checksum of the node /precious does not match"):
        asyncio.run(EmbeddedStore(file).open())


async def test_a_directory_in_its_place_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened for writing"):
        await EmbeddedStore(tmp_path).open()


async def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with pytest.raises(StoreError, match=r"Cannot create the directory .*plain/below"):
        await EmbeddedStore(tmp_path / "plain" / "below" / "metadata.db").open()


# Against a model

PATHS = ["/a", "/b", "/a/x", "/a/y", "/a/x/deep"]
paths = st.sampled_from(PATHS)
data = st.binary(max_size=3)
versions = st.sampled_from([-1, 0, 1])
operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Create, paths, data, st.booleans(), st.just(False)),
    st.builds(Set, paths, data, versions),
    st.builds(Delete, paths, versions),
)
REOPEN = "reopen"
steps = st.lists(st.one_of(st.lists(operations, min_size=1, max_size=4), st.just(REOPEN)), max_size=30)


class Model:
    """The same rules on a plain dict: path to (data, version, ephemeral)."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[bytes, int, bool]] = {}

    def multi(self, batch: Sequence[Operation]) -> bool:
        before = dict(self.nodes)
        if all(self.apply(operation) for operation in batch):
            return True
        self.nodes = before
        return False

    def apply(self, operation: Operation) -> bool:
        path, node = operation.path, self.nodes.get(operation.path)
        parent = path.rpartition("/")[0]
        if isinstance(operation, Create):
            if node or (parent and (parent not in self.nodes or self.nodes[parent][2])):
                return False
            self.nodes[path] = (operation.data, 0, operation.ephemeral)
            return True
        if node is None or operation.version not in (-1, node[1]):
            return False
        if isinstance(operation, Set):
            self.nodes[path] = (operation.data, node[1] + 1, node[2])
            return True
        if any(other.startswith(path + "/") for other in self.nodes):
            return False
        del self.nodes[path]
        return True

    def reopen(self) -> None:
        self.nodes = {path: node for path, node in self.nodes.items() if not node[2]}


@settings(max_examples=60, deadline=None)
@given(steps=steps)
def test_a_store_does_what_a_dict_would_over_reopens(steps: list[list[Operation] | str]) -> None:
    async def run(file: Path) -> None:
        store, model = EmbeddedStore(file, sync=False), Model()
        for step in [*steps, REOPEN]:
            if isinstance(step, str):
                await store.close()
                store = EmbeddedStore(file, sync=False)
                model.reopen()
            else:
                try:
                    await store.multi(step)
                    done = True
                except NodeError:
                    done = False
                assert done == model.multi(step)
            found = dict(zip(PATHS, await store.get_many(PATHS), strict=True))
            assert {path: tuple(node) for path, node in found.items() if node} == {
                path: node[:2] for path, node in model.nodes.items()
            }
            for path in model.nodes:
                names = {other[len(path) + 1 :] for other in model.nodes if other.startswith(path + "/")}
                assert await store.children(path) == sorted(name for name in names if "/" not in name)
        await store.close()

    directory = Path(tempfile.mkdtemp())
    try:
        asyncio.run(run(directory / "metadata.db"))
    finally:
        shutil.rmtree(directory)


WRITER = """
import asyncio, sys
from ottla.metadata.stores.embedded import EmbeddedStore
from ottla.metadata.stores.store import Create, Set

async def main():
    store = EmbeddedStore(sys.argv[1])
    if not await store.exists("/count"):
        await store.create("/count", b"0")
    count = int((await store.get("/count")).data)
    while True:
        count += 1
        await store.multi([Set("/count", str(count).encode()), Create(f"/n{count}", bytes(500))])
        print(count, flush=True)

asyncio.run(main())
"""


def test_what_was_acknowledged_survives_kill_9_and_a_multi_is_never_half_there(file: Path) -> None:
    for round_ in range(5):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(file)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
        )
        assert writer.stdout is not None
        acknowledged = 0
        for _ in range(20 + 37 * round_):
            acknowledged = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        remaining = writer.stdout.read().split()
        writer.stdout.close()
        acknowledged = int(remaining[-1]) if remaining else acknowledged

        count, names = asyncio.run(counted_nodes(file))
        assert count >= acknowledged
        assert names == {"count"} | {f"n{n}" for n in range(1, count + 1)}


def test_a_file_that_another_process_uses_is_refused(file: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(file)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
    )
    assert writer.stdout is not None
    try:
        assert writer.stdout.readline() == b"1\n"
        with pytest.raises(StoreError, match="in use by another broker"):
            asyncio.run(EmbeddedStore(file).open())
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()


async def counted_nodes(file: Path) -> tuple[int, set[str]]:
    store = EmbeddedStore(file)
    try:
        return int((await store.get("/count")).data), set(await store.children("/"))
    finally:
        await store.close()


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_only_its_owner_may_read_the_file_and_those_beside_it(file: Path) -> None:
    before = os.umask(0)
    try:
        store = EmbeddedStore(file)
        await store.create("/a", b"secret")
        wal = file.with_name(f"{file.name}-wal")
        assert wal.exists()
        assert {path.name: rights(path) for path in file.parent.iterdir()} == {
            file.name: 0o600,
            wal.name: 0o600,
            f"{file.name}-commits": 0o600,
        }
        await store.close()
    finally:
        os.umask(before)


async def test_a_file_that_others_could_read_is_closed_to_them(file: Path) -> None:
    store = EmbeddedStore(file)
    await store.create("/a", b"secret")
    for name in (file.name, f"{file.name}-wal"):
        shutil.copy(file.with_name(name), file.with_name(f"copy-{name}"))
        file.with_name(f"copy-{name}").chmod(0o664)
    await store.close()

    copy = file.with_name(f"copy-{file.name}")
    file.with_name(f"{copy.name}-shm").touch(0o664)
    store = EmbeddedStore(copy)
    assert (await store.get("/a")).data == b"secret"
    assert {rights(path) for path in file.parent.iterdir()} == {0o600}
    await store.close()


def filled(file: Path, count: int = 40) -> None:
    async def write() -> None:
        store = EmbeddedStore(file)
        for number in range(count):
            await store.create(f"/node-{number:03d}", b"the data of node %d" % number)
        await store.close()

    asyncio.run(write())


def paths_in(file: Path) -> list[str]:
    async def read() -> list[str]:
        store = EmbeddedStore(file)
        try:
            return await store.children("/")
        finally:
            await store.close()

    return asyncio.run(read())


@pytest.mark.parametrize("seed", range(4))
def test_whichever_bits_flip_everything_is_read_or_the_store_is_refused_in_one_sentence(
    file: Path, seed: int
) -> None:
    filled(file)
    beside = file.with_name(f"{file.name}-commits")
    whole, commits = file.read_bytes(), beside.read_bytes()
    expected = paths_in(file)
    rng = random.Random(seed)
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        beside.write_bytes(commits)
        refusal = None
        try:
            assert paths_in(file) == expected
        except StoreError as error:
            refusal = str(error)
        assert refusal is None or str(file) in refusal


@pytest.mark.parametrize("change", ["remove", "empty", "cut", "flip"])
def test_commits_that_are_missing_from_the_write_ahead_log_are_noticed(file: Path, change: str) -> None:
    """As after kill -9: the last commits exist only there, and SQLite skips commits behind a damaged one."""

    async def write() -> None:
        store = EmbeddedStore(file)
        for number in range(10):
            await store.create(f"/node-{number}", b"data")
        for path in file.parent.iterdir():
            shutil.copy(path, killed / path.name)
        await store.close()

    killed = file.parent / "killed"
    killed.mkdir()
    file = file.parent / "store" / file.name
    file.parent.mkdir()
    asyncio.run(write())
    wal = killed / f"{file.name}-wal"
    assert len(paths_in_copy(killed, file.name)) == 10
    data = wal.read_bytes()
    if change == "remove":
        wal.unlink()
    else:
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        wal.write_bytes({"empty": b"", "cut": data[:middle], "flip": flipped}[change])
    with pytest.raises(StoreError, match=r"last changes are missing|is empty or missing"):
        paths_in(killed / file.name)


def paths_in_copy(directory: Path, name: str) -> list[str]:
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(directory, copy, dirs_exist_ok=True)
        return paths_in(Path(copy) / name)


def test_a_store_that_was_there_is_not_replaced_by_an_empty_one(file: Path) -> None:
    filled(file)
    file.unlink()
    with pytest.raises(StoreError, match="is empty or missing"):
        paths_in(file)


async def test_a_store_of_the_first_version_is_taken_over(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute(f"PRAGMA application_id = {0x4F54_4C41}")
        connection.execute("PRAGMA user_version = 1")
        connection.execute(
            "CREATE TABLE node (path TEXT PRIMARY KEY, data BLOB NOT NULL, version INTEGER NOT NULL,"
            " czxid INTEGER NOT NULL, next_sequence INTEGER NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID"
        )
        connection.execute("CREATE TABLE store (epoch INTEGER NOT NULL)")
        connection.execute("INSERT INTO store VALUES (3)")
        row = Row("/old", b"data", 1, 2, 0)
        connection.execute("INSERT INTO node VALUES (?, ?, ?, ?, ?, ?)", (*row, row.checksum()))
    connection.close()
    for _ in range(2):
        store = EmbeddedStore(file)
        assert (await store.get("/old")).data == b"data"
        await store.close()
