"""Promises of the streaming query state: versions, repetition, restoring, and costs proportional to the changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("lmdb")

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.spark.state import Namespace, StateError, StatePlace, open_state
from ottla.spark.state.places import LOCAL_DIRECTORY
from tests.connect.chaos.small_disk import small_disk

Changes = dict[bytes, bytes | None]


def run(place: StatePlace, batch: int, changes: Changes) -> dict[bytes, bytes]:
    """Run one batch and return the resulting state."""
    with open_state(place, batch) as state:
        for key, value in changes.items():
            if value is None:
                state.delete(key)
            else:
                state.put(key, value)
        found = dict(state.scan())
        state.commit()
    return found


def held_before(place: StatePlace, batch: int) -> dict[bytes, bytes]:
    with open_state(place, batch) as state:
        return dict(state.scan())


def files(place: StatePlace) -> list[Path]:
    return sorted(Path(place.checkpoint).rglob("*.delta")) + sorted(
        Path(place.checkpoint).rglob("*.snapshot")
    )


def test_a_batch_sees_what_the_one_before_committed(place: StatePlace) -> None:
    assert run(place, 0, {b"a": b"1", b"b": b"2"}) == {b"a": b"1", b"b": b"2"}
    assert run(place, 1, {b"a": None, b"c": b"3"}) == {b"b": b"2", b"c": b"3"}
    with open_state(place, 2) as state:
        assert state.get(b"a") is None
        assert state.get(b"c") == b"3"


def test_a_repeated_batch_begins_from_the_state_before_it(place: StatePlace) -> None:
    run(place, 0, {b"a": b"1"})
    for changes in ({b"a": b"2", b"b": b"2"}, {b"a": b"3"}, {b"c": b"4"}):
        assert held_before(place, 1) == {b"a": b"1"}
        run(place, 1, changes)
    assert held_before(place, 2) == {b"a": b"1", b"c": b"4"}


def test_nothing_remains_of_a_batch_that_was_not_committed(place: StatePlace) -> None:
    run(place, 0, {b"a": b"1"})
    with open_state(place, 1) as state:
        state.put(b"a", b"2")
    assert held_before(place, 1) == {b"a": b"1"}


def test_a_batch_that_outgrows_a_transaction_is_undone_as_a_whole(
    place: StatePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.spark.state.local_copy._CHANGES_PER_TRANSACTION", 7)
    run(place, 0, {b"%d" % i: b"old" for i in range(50)})
    with open_state(place, 1) as state:
        for i in range(0, 100, 3):
            state.put(b"%d" % i, b"new")
        state.delete(b"4")
    assert held_before(place, 1) == {b"%d" % i: b"old" for i in range(50)}
    run(place, 1, {b"%d" % i: b"new" for i in range(0, 100, 3)})
    assert held_before(place, 1) == {b"%d" % i: b"old" for i in range(50)}


def test_a_machine_without_a_copy_restores_it(
    place: StatePlace, on_another_machine: Callable[[], None]
) -> None:
    run(place, 0, {b"a": b"1", b"b": b"2"})
    run(place, 1, {b"b": None, b"c": b"3"})
    on_another_machine()
    assert held_before(place, 2) == {b"a": b"1", b"c": b"3"}
    on_another_machine()
    assert held_before(place, 1) == {b"a": b"1", b"b": b"2"}
    # Restored state cannot be undone, and must not be taken for the previous state.
    assert held_before(place, 0) == {}


def test_a_copy_of_another_version_is_made_anew(
    place: StatePlace, on_another_machine: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(place, 0, {b"a": b"1"})
    first = os.environ[LOCAL_DIRECTORY]
    on_another_machine()
    run(place, 1, {b"a": b"2"})
    run(place, 2, {b"b": b"3"})
    monkeypatch.setenv(LOCAL_DIRECTORY, first)
    assert held_before(place, 3) == {b"a": b"2", b"b": b"3"}


@pytest.mark.parametrize("damage", ["cut", "garbage", "gone", "one page"])
def test_a_damaged_copy_is_made_anew(place: StatePlace, damage: str) -> None:
    run(place, 0, {b"%d" % i: b"x" * 200 for i in range(500)})
    data = place.local_directory() / "data.mdb"
    match damage:
        case "cut":
            os.truncate(data, data.stat().st_size // 2)
        case "one page":
            os.truncate(data, 4096)
        case "garbage":
            data.write_bytes(os.urandom(data.stat().st_size))
        case "gone":
            data.unlink()
    assert len(held_before(place, 1)) == 500


def test_a_damaged_file_of_the_checkpoint_is_named(
    place: StatePlace, on_another_machine: Callable[[], None]
) -> None:
    run(place, 0, {b"a": os.urandom(1000)})
    [delta] = files(place)
    os.truncate(delta, delta.stat().st_size - 10)
    on_another_machine()
    with pytest.raises(StateError, match=r"after batch 0 cannot be restored .* is damaged"):
        open_state(place, 1)
    delta.unlink()
    with pytest.raises(StateError, match="files are missing"):
        open_state(place, 1)


def test_a_damaged_snapshot_is_passed_over_while_deltas_are_there(
    place: StatePlace, on_another_machine: Callable[[], None]
) -> None:
    run(place, 0, {b"z": b"0"})
    run(place, 1, {b"a": os.urandom(2 << 20)})
    for batch in range(2, 17):
        held = run(place, batch, {b"b": b"%d" % batch})
    [snapshot] = [each for each in files(place) if each.suffix == ".snapshot" and "16" in each.name]
    snapshot.write_bytes(b"")
    on_another_machine()
    assert held_before(place, 17) == held


def test_a_damaged_delta_does_not_end_batches_that_do_not_need_it(place: StatePlace) -> None:
    for batch in range(16):
        run(place, batch, {b"a": b"%d" % batch})
    files(place)[3].write_bytes(b"")
    for batch in range(16, 40):
        held = run(place, batch, {b"a": b"%d" % batch})
    assert held_before(place, 40) == held


def test_scans_are_in_the_order_of_keys(place: StatePlace) -> None:
    run(place, 0, {b"a1": b"", b"b2": b"", b"b1": b"", b"c": b""})
    with open_state(place, 1) as state:
        state.put(b"b15", b"")
        state.delete(b"b2")
        assert [key for key, _ in state.scan(b"b")] == [b"b1", b"b15"]
        assert [key for key, _ in state.scan(b"b", start=b"b11")] == [b"b15"]
        assert [key for key, _ in state.scan(start=b"b", stop=b"b15")] == [b"b1"]
        assert [key for key, _ in state.scan(limit=2)] == [b"a1", b"b1"]
        assert state.scan(b"d") == []


def test_keys_may_be_longer_than_lmdb_takes(
    place: StatePlace, on_another_machine: Callable[[], None]
) -> None:
    long = b"k" * 1000
    run(place, 0, {long + b"2": b"two", long + b"1": b"one", b"k" * 440: b"short", b"k" * 441: b"long"})
    on_another_machine()
    with open_state(place, 1) as state:
        assert state.get(long + b"1") == b"one"
        assert [value for _, value in state.scan(long)] == [b"one", b"two"]
        assert [value for _, value in state.scan(b"k")] == [b"short", b"long", b"one", b"two"]
        assert [value for _, value in state.scan(long, stop=long + b"2")] == [b"one"]
        state.delete(long + b"1")
        state.delete(long + b"never")
        state.commit()
    on_another_machine()
    assert len(held_before(place, 2)) == 3


def test_namespaces_do_not_see_each_other(place: StatePlace) -> None:
    with open_state(place, 0) as state:
        one, other = Namespace(state, b"1"), Namespace(state, b"2")
        one.put(b"a", b"one")
        other.put(b"a", b"other")
        other.put(b"b", b"more")
        assert one.scan() == [(b"a", b"one")]
        assert other.scan(start=b"b") == [(b"b", b"more")]
        other.delete(b"a")
        assert one.get(b"a") == b"one"
        assert other.get(b"a") is None


def test_the_map_grows_by_itself(place: StatePlace) -> None:
    with open_state(place, 0, headroom=1 << 20) as state:
        for batch in range(30):
            state.put(b"%d" % batch, os.urandom(400_000))
            state._copy._continue()
        state.commit()
    with open_state(place, 1, headroom=1 << 20) as state:
        assert len(state.scan()) == 30


def test_a_batch_costs_what_it_changes(place: StatePlace) -> None:
    run(place, 0, {b"%08d" % i: os.urandom(100) for i in range(20_000)})
    for batch in range(1, 40):
        run(place, batch, {b"%08d" % batch: b"changed"})
    large = [each for each in files(place) if each.stat().st_size > 100_000]
    assert len(large) == 1  # the snapshot: the small deltas have not outgrown it
    assert sum(each.stat().st_size for each in files(place) if each not in large) < 20_000


def test_files_do_not_pile_up(place: StatePlace) -> None:
    for batch in range(300):
        held = run(place, batch, {b"%d" % (batch % 7): b"%d" % batch})
    assert len(files(place)) <= 40
    assert list(Path(place.checkpoint).rglob("*.tmp")) == []
    assert held_before(place, 300) == held


def test_two_attempts_of_a_task_at_the_same_time_do_no_harm(place: StatePlace) -> None:
    run(place, 0, {b"a": b"1"})
    with open_state(place, 1) as slow, open_state(place, 1) as quick:
        slow.put(b"a", b"2")
        assert quick.get(b"a") == b"1"
        quick.put(b"a", b"2")
        quick.commit()
        slow.put(b"b", b"3")
        quick.close()
        # The straggler of batch 1 still runs during batch 2.
        with open_state(place, 2) as following:
            assert dict(following.scan()) == {b"a": b"2"}
            following.put(b"c", b"4")
            following.commit()
    assert held_before(place, 3) == {b"a": b"2", b"c": b"4"}
    assert list(place.local_directory().glob("attempt-*")) == []


def test_copies_belong_to_this_user_alone(place: StatePlace, tmp_path: Path) -> None:
    run(place, 0, {})
    root = tmp_path / "local" / f"ottla-state-{os.getuid()}"
    assert {each.stat().st_mode & 0o077 for each in [root, *root.rglob("*.mdb")]} == {0}
    root.chmod(0o755)
    with pytest.raises(StateError, match="0700"):
        open_state(place, 1)


def test_copies_of_deleted_checkpoints_are_removed(place: StatePlace, tmp_path: Path) -> None:
    run(place, 0, {})
    shutil.rmtree(place.checkpoint)
    other = StatePlace(str(tmp_path), "other", "join", 0)
    run(other, 0, {})
    root = tmp_path / "local" / f"ottla-state-{os.getuid()}"
    assert len(list(root.iterdir())) == 1


def test_a_checkpoint_that_was_made_anew_begins_with_nothing(place: StatePlace) -> None:
    run(place, 0, {b"a": b"1"})
    again = StatePlace(place.checkpoint, "another", "join", 0)
    assert held_before(again, 0) == {}


def test_a_process_that_is_killed_anywhere_leaves_a_state_that_can_be_used(tmp_path: Path) -> None:
    script = Path(__file__).with_name("killed_batches.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, LOCAL_DIRECTORY: str(tmp_path / "local")},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20  # enough kills hit a running batch


KEYS = st.sampled_from([b"a", b"b", b"ab", b"a" * 441 + b"1", b"a" * 441 + b"2"])
STEPS = st.lists(
    st.tuples(
        st.dictionaries(KEYS, st.none() | st.binary(max_size=5), max_size=5),
        st.sampled_from(["go on", "repeat", "give up", "move"]),
    ),
    max_size=25,
)


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_whatever_happens_the_state_is_that_of_the_batches(steps: list[tuple[Changes, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(LOCAL_DIRECTORY, folder)
        patch.setattr("ottla.spark.state.local_copy._CHANGES_PER_TRANSACTION", 2)
        place = StatePlace(f"{folder}/checkpoint", "query", "join", 0)
        before: dict[bytes, bytes] = {}
        batch = 0
        for changes, then in steps:
            after = {key: value for key, value in (before | changes).items() if value is not None}
            if then == "give up":
                with open_state(place, batch) as state:
                    for key in changes:
                        state.put(key, b"lost")
            elif then == "move":
                shutil.rmtree(f"{folder}/ottla-state-{os.getuid()}", ignore_errors=True)
            elif then == "repeat":
                run(place, batch, dict.fromkeys((b"a", b"x"), b"wrong"))
            assert held_before(place, batch) == before
            assert run(place, batch, changes) == after
            before, batch = after, batch + 1
        assert held_before(place, batch) == before


@pytest.mark.parametrize(
    ("full", "sentence"),
    [
        (
            "local",
            "The copy of the state of operator join, partition 0 of query query in .*No space left on device",
        ),
        (
            "checkpoint",
            "The state of operator join, partition 0 of query query cannot be .*No space left on device",
        ),
    ],
)
def test_a_full_disk_is_said_and_the_batch_can_be_repeated_with_room(
    place: StatePlace, tmp_path: Path, full: str, sentence: str
) -> None:
    with small_disk(tmp_path / full, "512k") as disk:
        run(place, 0, {b"a": b"1"})
        disk.fill()
        for _ in range(2):
            with pytest.raises(StateError, match=sentence):
                run(place, 1, {b"%d" % number: os.urandom(100) for number in range(1000)})
        disk.free()
        assert held_before(place, 1) == {b"a": b"1"}
        run(place, 1, {b"b": b"2"})
        assert held_before(place, 2) == {b"a": b"1", b"b": b"2"}
