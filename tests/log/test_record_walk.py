"""The compiled walk matches the plain one for any batch, and survives all of them."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.log.cleaner.walk.compiled import CompiledWalk
from ottla.log.cleaner.walk.walk import MalformedRecords, ReferenceWalk, Rules
from ottla.protocol.records import Record, build_batch

KEYS = st.one_of(
    st.none(), st.sampled_from([b"", b"a", b"k" * 7, b"k" * 8, b"k" * 40]), st.binary(max_size=20)
)
VALUES = st.one_of(st.none(), st.binary(max_size=300))
HEADERS = st.lists(st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=5))), max_size=2)
TIMES = st.integers(0, 2**50)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """Return a few batches with increasing offsets, gaps, delete horizons and odd timestamps."""
    out = bytearray()
    offset = draw(st.integers(0, 100))
    for _ in range(draw(st.integers(1, 4))):
        records = []
        base = offset
        for _ in range(draw(st.integers(1, 6))):
            offset += draw(st.integers(0, 300))
            records.append(Record(offset, draw(TIMES), draw(KEYS), draw(VALUES), draw(HEADERS)))
            offset += 1
        batch = build_batch(
            records,
            base_offset=base,
            keep_offsets=True,
            timestamp_type=draw(st.integers(0, 1)),
            producer_id=5,
        )
        if draw(st.booleans()):
            (attributes,) = struct.unpack_from(">h", batch, 21)
            struct.pack_into(">h", batch, 21, attributes | 0x40)
            struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
        out += batch
    return bytes(out)


def both(max_keys: int) -> tuple[ReferenceWalk, CompiledWalk]:
    return ReferenceWalk(max_keys), CompiledWalk(max_keys, 2 * max_keys + 2)


@settings(max_examples=100, deadline=None)
@given(batches(), st.data())
def test_both_walks_agree(data: bytes, draw: st.DataObject) -> None:
    view = memoryview(data)
    plain, compiled = both(draw.draw(st.sampled_from([1, 3, 1000])))
    rows, end, fault = plain.scan(view)
    found = compiled.scan(view)
    assert [list(row) for row in rows] == [list(row) for row in found.rows]
    assert (found.end, found.fault) == (end, fault) == (len(data), None)

    skip = bytes(draw.draw(st.sampled_from([0, 0, 1])) for _ in rows)
    start = draw.draw(st.integers(0, 1000))
    assert plain.index(view, rows, skip, start) == compiled.index(view, rows, skip, start)
    assert plain.keys == compiled.keys

    modes = bytes(draw.draw(st.integers(0, 15)) for _ in rows)
    now = draw.draw(TIMES)
    rules = Rules(draw.draw(st.integers(0, 3000)), now, now + draw.draw(st.integers(0, 10**9)))
    expected = plain.filter(view, rows, modes, rules)
    actual = compiled.filter(view, rows, modes, rules)
    assert [list(place) for place in actual.changed] == [list(place) for place in expected.changed]
    assert (actual.records, actual.kept) == (expected.records, expected.kept)
    assert _without_checksums(actual) == _without_checksums(expected)


def _without_checksums(filtered) -> bytes:
    out = bytearray(filtered.data)
    for at, _ in filtered.changed:
        out[at + 17 : at + 21] = bytes(4)
    return bytes(out)


@settings(max_examples=100, deadline=None)
@given(batches(), st.data())
def test_damaged_records_are_refused_or_read_alike(data: bytes, draw: st.DataObject) -> None:
    plain, compiled = both(1000)
    rows = plain.scan(memoryview(data)).rows
    at, size = rows[0][0], rows[0][1]
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        damaged[draw.draw(st.integers(at + 61, at + size - 1))] = draw.draw(st.integers(0, 255))
    view, rules = memoryview(damaged), Rules(10**6, 0, 1000)
    try:
        plain.index(view, rows, bytes(len(rows)), 0)
        expected = plain.filter(view, rows, bytes(len(rows)), rules)
    except MalformedRecords:
        # The compiled walk copies headers without parsing them, so it must only survive.
        try:
            compiled.index(view, rows, bytes(len(rows)), 0)
            compiled.filter(view, rows, bytes(len(rows)), rules)
        except MalformedRecords:
            pass
        return
    compiled.index(view, rows, bytes(len(rows)), 0)
    actual = compiled.filter(view, rows, bytes(len(rows)), rules)
    assert (actual.records, actual.kept) == (expected.records, expected.kept)


def test_siphash_is_the_published_one():
    import numpy as np

    from ottla.log.cleaner.walk.kernels import siphash

    k0, k1 = np.frombuffer(bytes(range(16)), np.uint64)
    for length, expected in [
        (0, "a3817f04ba25a8e66df67214c7550293"),
        (1, "da87c1d86b99af44347659119b22fc45"),
        (8, "3b62a9ba6258f5610f83e264f31497b4"),
    ]:
        data = np.arange(max(length, 1), dtype=np.uint8)
        low, high = siphash(data, np.uint64(0), np.uint64(length), k0, k1)
        assert struct.pack("<QQ", low, high).hex() == expected


@pytest.mark.parametrize("walk", both(10))
def test_what_is_not_a_batch_is_a_fault(walk):
    good = build_batch([Record(0, 1, b"k", b"v")])
    scanned = walk.scan(memoryview(good + b"x" * 100))
    assert len(scanned.rows) == 1
    assert scanned.fault is not None
    assert scanned.end == len(good)
