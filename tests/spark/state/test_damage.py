"""Damaged state files: a flipped bit or a truncated file is detected, and the error names the file."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("lmdb")

import pyarrow as pa

from ottla.spark.state import StateError, StatePlace, fixed_partitions, open_state
from tests.spark.state.test_keyed_state import held_before, run

Damage = Callable[[bytes], bytes]


def flipped(bit: int) -> Damage:
    return lambda data: data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


def written(place: StatePlace) -> tuple[Path, dict[bytes, bytes]]:
    """Write one file of changes, with values of many lengths."""
    chance = random.Random(3)
    entries = {b"key %d" % i: chance.randbytes(chance.randrange(40)) for i in range(30)}
    run(place, 0, dict(entries))
    [file] = Path(place.checkpoint).rglob("*.delta")
    return file, entries


def test_no_flipped_bit_goes_unnoticed(place: StatePlace, on_another_machine: Callable[[], None]) -> None:
    file, entries = written(place)
    whole = file.read_bytes()
    refused = []
    for bit in random.Random(7).sample(range(len(whole) * 8), 150):
        file.write_bytes(flipped(bit)(whole))
        on_another_machine()
        try:
            assert held_before(place, 1) == entries, f"bit {bit}"  # an insignificant bit in zstd's header
        except StateError as error:
            refused.append(str(error))
    assert len(refused) > 140
    assert all(str(file) in each for each in refused)


def test_no_missing_end_goes_unnoticed(place: StatePlace, on_another_machine: Callable[[], None]) -> None:
    file, _ = written(place)
    whole = file.read_bytes()
    for length in range(0, len(whole), 11):
        file.write_bytes(whole[:length])
        on_another_machine()
        with pytest.raises(StateError, match=f"{file} is damaged"):
            held_before(place, 1)


@pytest.mark.parametrize("head", [b"\xfe\xff\xff\xff\xff\xff\xff\x7f", b"\x01\0\0\0\xfe\xff\xff\xff"])
def test_an_impossible_length_takes_neither_memory_nor_time(
    place: StatePlace, on_another_machine: Callable[[], None], head: bytes
) -> None:
    file, _ = written(place)
    with pa.CompressedOutputStream(str(file), "zstd") as out:
        out.write(b"ottla state 2\n" + head + b"x" * 100)
    on_another_machine()
    before, begun = pa.total_allocated_bytes(), time.monotonic()
    with pytest.raises(StateError, match="is damaged"):
        held_before(place, 1)
    assert time.monotonic() - begun < 5
    assert pa.total_allocated_bytes() - before < 100 << 20


def test_a_file_of_a_newer_version_says_so(place: StatePlace, on_another_machine: Callable[[], None]) -> None:
    file, _ = written(place)
    with pa.CompressedOutputStream(str(file), "zstd") as out:
        out.write(b"ottla state 3\n")
    on_another_machine()
    with pytest.raises(StateError, match=r"state format 3 of a newer version of Ottla.*Update Ottla"):
        held_before(place, 1)


def test_a_snapshot_replaces_damaged_changes_before_it(
    place: StatePlace, on_another_machine: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.spark.state.history._SMALLEST_SNAPSHOT", 1)
    for batch in range(17):
        run(place, batch, {b"%d" % batch: b"x"})
    [snapshot] = Path(place.checkpoint).rglob("*16.snapshot")
    deltas = sorted(Path(place.checkpoint).rglob("*.delta"))
    deltas[0].write_bytes(b"damaged")
    on_another_machine()
    assert len(held_before(place, 17)) == 17
    snapshot.write_bytes(snapshot.read_bytes()[:-1])
    on_another_machine()
    with pytest.raises(StateError, match=re.escape(str(snapshot))):
        held_before(place, 17)


def test_a_flipped_bit_in_the_copy_is_noticed_and_the_copy_made_again(
    place: StatePlace, tmp_path: Path
) -> None:
    entries: dict[bytes, bytes | None] = {b"key %d" % i: b"value %d" % i for i in range(30)} | {
        b"k" * 600: b"long"
    }
    run(place, 0, entries)
    [copy] = (tmp_path / "local").rglob("data.mdb")
    data = copy.read_bytes()
    copy.write_bytes(data.replace(b"value 7", b"value 6"))
    with (
        pytest.raises(StateError, match=r"in .* was damaged, and is removed. Start the query again"),
        open_state(place, 1) as state,
    ):
        state.get(b"key 7")
    assert held_before(place, 1) == entries
    assert run(place, 1, {b"key 7": b"new"})[b"key 7"] == b"new"


def test_a_damaged_number_of_partitions_is_named(tmp_path: Path) -> None:
    assert fixed_partitions(str(tmp_path), 3) == 3
    file = tmp_path / "ottla-state" / "partitions"
    for damage in (b"", b"x", b"0", b"\xff\xfe"):
        file.write_bytes(damage)
        with pytest.raises(StateError, match=f"{file} is damaged"):
            fixed_partitions(str(tmp_path), 3)


def test_a_value_that_cannot_be_stored_fails_the_batch_with_the_name_of_the_query(place: StatePlace) -> None:
    from ottla.spark.state.value_codec import encode

    with (
        pytest.raises(
            StateError, match=r"of query query under .* a value of type builtins.object cannot be stored"
        ),
        open_state(place, 0) as state,
    ):
        state.put(b"a", encode(object()))
