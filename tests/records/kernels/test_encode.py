"""Encoding: the protocol's reader reads the kernels' output, and keys go to the same partitions as in Java."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")
pytest.importorskip("numba")

import numpy as np
import pyarrow as pa

from ottla.protocol.records import Codec, check_crc, read_header, read_records
from ottla.records import kernels
from ottla.records.kernels import encoding, reference
from ottla.records.kernels.record_columns import HEADERS_TYPE

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2

maybe_bytes = st.none() | st.binary(max_size=300)
header_lists = st.none() | st.lists(st.tuples(st.text(max_size=8), maybe_bytes), max_size=3)
row_lists = st.lists(st.tuples(maybe_bytes, maybe_bytes, header_lists, st.integers(0, 2**50)), max_size=40)


def columns(rows: list[Any]) -> list[Any]:
    keys, values, headers, timestamps = zip(*rows, strict=True) if rows else ((), (), (), ())
    return [
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(
            [pairs and [{"key": key, "value": value} for key, value in pairs] for pairs in headers],
            HEADERS_TYPE,
        ),
        pa.array(timestamps, pa.int64()),
    ]


def encode(
    keys: Any,
    values: Any,
    headers: Any,
    timestamps: Any,
    rows: Any = None,
    *,
    codec: Codec = Codec.NONE,
    max_batch_bytes: int = kernels.MAX_BATCH_BYTES,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> list[bytearray]:
    """Encode some or all rows."""
    count = None if rows is None else max(rows, default=-1) + 1
    encoder = kernels.Encoder(keys, values, headers, timestamps, count)
    seal = kernels.Seal(codec, None, producer_id, producer_epoch, base_sequence, transactional)
    return encoder.encode(np.arange(encoder.count) if rows is None else rows, max_batch_bytes, seal)


def read(batches: list[bytearray]) -> list[Any]:
    found = []
    for batch in batches:
        assert check_crc(batch, 0, read_header(batch))
        [(header, records)] = read_records(batch)
        assert header.size == len(batch)
        assert header.max_timestamp == max(record.timestamp for record in records)
        assert [record.offset for record in records] == list(range(len(records)))
        found += [(record.key, record.value, list(record.headers), record.timestamp) for record in records]
    return found


@given(row_lists, st.sampled_from(Codec), st.integers(61, 3000))
def test_rows_come_back_as_records(rows: list[Any], codec: Codec, max_batch_bytes: int) -> None:
    batches = encode(*columns(rows), codec=codec, max_batch_bytes=max_batch_bytes)
    assert read(batches) == [(key, value, headers or [], time) for key, value, headers, time in rows]
    if codec == Codec.NONE:
        assert all(len(b) <= max_batch_bytes for b in batches if read_header(b).record_count > 1)


@given(row_lists, st.integers(61, 3000), st.integers(-1, 2**31 - 1), st.data())
def test_the_kernel_writes_the_bytes_of_the_reference(
    rows: list[Any], max_batch_bytes: int, sequence: int, choose: st.DataObject
) -> None:
    chosen = choose.draw(st.lists(st.integers(0, len(rows) - 1), max_size=50)) if rows else []
    skip = choose.draw(st.integers(0, min(chosen, default=0)))
    given_columns = [column[skip:] for column in columns(rows)]  # slices start inside their buffers
    options = {
        "max_batch_bytes": max_batch_bytes,
        "producer_id": 7,
        "producer_epoch": 3,
        "base_sequence": sequence,
        "transactional": True,
    }
    wanted = np.array(chosen, np.int64) - skip
    by_kernel = encode(*given_columns, wanted, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "encoding", reference)
        assert encode(*given_columns, wanted, **options) == by_kernel


def test_sequence_numbers_go_on_and_start_again() -> None:
    values = pa.array([b"x" * 100] * 6)
    batches = encode(
        None,
        values,
        None,
        None,
        producer_id=1,
        producer_epoch=0,
        base_sequence=2**31 - 3,
        max_batch_bytes=300,
    )
    headers = [read_header(batch) for batch in batches]
    assert [header.record_count for header in headers] == [2, 2, 2]
    assert [header.base_sequence for header in headers] == [2**31 - 3, 2**31 - 1, 1]


def test_a_record_larger_than_a_batch_is_a_batch_of_its_own() -> None:
    values = [b"a", b"b" * 10_000, b"c", b"d"]
    batches = encode(None, pa.array(values), None, None, max_batch_bytes=200)
    assert [read_header(batch).record_count for batch in batches] == [1, 1, 2]
    assert [row[1] for row in read(batches)] == values


def test_columns_may_be_missing_and_text_is_utf8() -> None:
    batches = encode(pa.array(["é", None]), None, None, pa.array([5, None]))
    first, second = read(batches)
    assert first == ("é".encode(), None, [], 5)
    assert second[:3] == (None, None, [])
    assert second[3] > 1_600_000_000_000
    assert len(read(encode(None, None, None, None, [0, 1, 2]))) == 3
    assert encode(None, pa.array([], pa.binary()), None, None) == []


@pytest.mark.parametrize("kind", ["large_binary", "large_string", "chunked", "binary_view"])
def test_every_layout_of_strings_is_taken(kind: str) -> None:
    column = pa.array([b"one", None, b"three"], pa.binary())
    if kind == "chunked":
        column = pa.chunked_array([column[:1], column[1:]])
    elif kind == "large_string":
        column = column.cast(pa.large_string())
    else:
        column = column.cast(getattr(pa, kind)())
    assert [row[1] for row in read(encode(None, column, None, None))] == [b"one", None, b"three"]


@pytest.mark.parametrize("module", [encoding, reference])
def test_a_header_without_a_key_is_refused(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "encoding", module)
    for pairs in ([{"key": None, "value": b"x"}], [None]):
        with pytest.raises(ValueError, match="a header has no key"):
            encode(None, None, pa.array([pairs], HEADERS_TYPE), None)


def test_a_negative_timestamp_is_refused() -> None:
    with pytest.raises(ValueError, match="the timestamp -1 is negative"):
        encode(None, pa.array([b"x"]), None, pa.array([-1]))


def test_rows_that_are_not_there_are_refused() -> None:
    with pytest.raises(IndexError, match="there is no row 1 among 1"):
        encode(None, pa.array([b"x"]), None, None, [1])


# From Kafka's own UtilsTest.
JAVA_HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("partitions", [kernels.partition_for, reference.partition_for])
def test_keys_go_where_java_puts_them(partitions: Callable[[Any, int], Any]) -> None:
    keys = pa.array(list(JAVA_HASHES))
    large = 2**31 - 1  # exposes nearly the whole hash
    assert partitions(keys, large).tolist() == [
        (hashed & 0x7FFFFFFF) % large for hashed in JAVA_HASHES.values()
    ]


@given(st.lists(maybe_bytes, max_size=30), st.integers(1, 200))
def test_every_key_goes_where_kafka_python_puts_it(keys: list[bytes | None], count: int) -> None:
    column = pa.array(keys, pa.binary())
    wanted = [-1 if key is None else (murmur2(key) & 0x7FFFFFFF) % count for key in keys]
    assert kernels.partition_for(column, count).tolist() == wanted
    assert reference.partition_for(column, count).tolist() == wanted


@given(st.lists(st.integers(0, 12), max_size=60))
def test_rows_stay_in_order_within_their_partition(partitions: list[int]) -> None:
    wanted = {
        partition: [row for row, other in enumerate(partitions) if other == partition]
        for partition in sorted(set(partitions))
    }
    for module in (encoding, reference):
        found = module.rows_by_partition(np.array(partitions, np.int32))
        assert {partition: rows.tolist() for partition, rows in found} == wanted


def test_without_numba_the_reference_does_it() -> None:
    code = """
import sys
sys.modules["numba"] = None
import pyarrow as pa
from ottla.records import kernels
from ottla.records.kernels import reference
assert kernels.encoding is reference
encoder = kernels.Encoder(pa.array([b"k"]), pa.array(["v"]), None, pa.array([1]))
[batch] = encoder.encode([0], 1000, kernels.Seal(0, None, -1, -1, -1, False))
columns, next_offset = kernels.decode(batch, start=0, end=9, with_headers=True)
assert (columns.keys.to_pylist(), columns.values.to_pylist(), next_offset) == ([b"k"], [b"v"], 1)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
