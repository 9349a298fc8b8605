"""Decoding: the compiled kernel, the reference and the protocol's record reader agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")
pytest.importorskip("numba")

from ottla.protocol.batch_header import HEADER, LENGTH_AT
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import LOG_APPEND_TIME, Codec, Record, build_batch, read_records
from ottla.records import kernels
from ottla.records.kernels import RecordColumns, reference

EVERYTHING = 2**62

maybe_bytes = st.none() | st.binary(max_size=40)
header_lists = st.lists(st.tuples(st.text(max_size=8), maybe_bytes), max_size=3)
# A batch stores timestamps as int64 deltas from the first.
far_timestamps = st.integers(-(2**62), 2**62 - 1)


usual_timestamps = st.integers(0, 2**42)


def records(timestamps: st.SearchStrategy[int] = usual_timestamps) -> st.SearchStrategy[list[Record]]:
    one = st.builds(Record, st.just(0), timestamps, maybe_bytes, maybe_bytes, header_lists)
    return st.lists(one, min_size=1, max_size=20)


def decode(data: bytes, start: int = 0, end: int = EVERYTHING, **options: Any) -> tuple[list[Any], int]:
    columns, next_offset = kernels.decode(data, start=start, end=end, with_headers=True, **options)
    return rows(columns), next_offset


def decode_by_reference(
    data: bytes, start: int = 0, end: int = EVERYTHING, check_crcs: bool = True
) -> tuple[list[Any], int]:
    columns, next_offset = reference.decode(data, start, end, True, None, check_crcs)
    return rows(columns), next_offset


def rows(columns: RecordColumns) -> list[Any]:
    for column in columns:
        column.validate(full=True)
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def outcome(decoder: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return decoder(data)
    except KafkaError as error:
        return error.code


def expected(data: bytes) -> list[Any]:
    return [
        (
            record.key,
            record.value,
            record.offset,
            record.timestamp,
            header.timestamp_type,
            [{"key": key, "value": value} for key, value in record.headers] or None,
        )
        for header, batch in read_records(data)
        for record in batch
    ]


@given(st.lists(st.tuples(records(), st.sampled_from(Codec), st.integers(0, 5)), max_size=4))
def test_every_record_of_a_fetch_becomes_a_row(batches: list[tuple[list[Record], Codec, int]]) -> None:
    data = bytearray()
    offset = 0
    for batch, codec, gap in batches:
        data += build_batch(batch, base_offset=offset + gap, codec=codec)
        offset += gap + len(batch)
    result = decode(bytes(data))
    assert result == (expected(bytes(data)), offset)
    assert result == decode_by_reference(bytes(data))


@given(records(), st.lists(st.integers(1, 200), min_size=20, max_size=20), st.integers(0, 2**40))
def test_offsets_keep_the_gaps_that_compaction_left(
    batch: list[Record], steps: list[int], base_offset: int
) -> None:
    offset = base_offset
    for record, step in zip(batch, steps, strict=False):
        offset += step
        record.offset = offset
    data = bytes(build_batch(batch, base_offset=base_offset, keep_offsets=True))
    result, next_offset = decode(data)
    assert [row[2] for row in result] == [record.offset for record in batch]
    assert next_offset == offset + 1
    assert result == expected(data)


@given(records(), st.integers(0, 25), st.integers(0, 25))
def test_only_the_rows_from_start_to_end_are_delivered(batch: list[Record], start: int, end: int) -> None:
    data = bytes(build_batch(batch))
    result, next_offset = decode(data, start, end)
    assert result == expected(data)[start:end]
    assert next_offset == (max(start, min(end, len(batch))) if start < end else end)


@given(records(far_timestamps), st.booleans())
def test_timestamps_may_be_anything_that_fits(batch: list[Record], append_time: bool) -> None:
    data = bytes(build_batch(batch, timestamp_type=LOG_APPEND_TIME if append_time else 0))
    assert decode(data)[0] == expected(data)


@given(records(), st.data())
def test_damaged_bytes_are_corrupt_or_read_as_the_reference_reads_them(
    batch: list[Record], choose: st.DataObject
) -> None:
    data = build_batch(batch)
    for _ in range(choose.draw(st.integers(1, 4))):
        data[choose.draw(st.integers(12, len(data) - 1))] = choose.draw(st.integers(0, 255))

    def by_kernel(data: bytes) -> Any:
        return decode(data, check_crcs=False)

    def by_reference(data: bytes) -> Any:
        return decode_by_reference(data, check_crcs=False)

    assert outcome(by_kernel, bytes(data)) == outcome(by_reference, bytes(data))


@given(st.binary(max_size=200), st.integers(0, 40), st.integers(-1, 60))
def test_hostile_bodies_never_read_beyond_their_end(body: bytes, count: int, last_offset_delta: int) -> None:
    header = HEADER.pack(0, 49 + len(body), 0, 2, 0, 0, last_offset_delta, 0, 0, -1, -1, -1, count)

    def by_kernel(data: bytes) -> Any:
        return decode(data, check_crcs=False)

    def by_reference(data: bytes) -> Any:
        return decode_by_reference(data, check_crcs=False)

    data = header + body
    assert outcome(by_kernel, data) == outcome(by_reference, data)
    padded = data + b"\0" * 11  # followed by an incomplete batch
    assert outcome(by_kernel, padded) == outcome(by_kernel, data)


def test_a_batch_that_is_cut_off_waits_for_the_next_fetch() -> None:
    first = build_batch([Record(0, 1, b"k", b"v")], base_offset=7)
    second = build_batch([Record(0, 1, b"k", b"w")], base_offset=8)
    for kept in range(len(second)):
        result, next_offset = decode(bytes(first + second[:kept]), start=7)
        assert [row[1] for row in result] == [b"v"]
        assert next_offset == 8
    assert decode(b"", start=7) == ([], 7)


def test_a_wrong_checksum_is_corrupt() -> None:
    data = build_batch([Record(0, 1, b"k", b"value")])
    data[-3] ^= 1
    with pytest.raises(KafkaError, match="the checksum of the batch at offset 0 is wrong") as raised:
        decode(bytes(data))
    assert raised.value.code == ErrorCode.CORRUPT_MESSAGE


def test_a_length_that_is_negative_is_corrupt() -> None:
    data = build_batch([Record(0, 1, b"k", b"value")])
    data[LENGTH_AT] = 0xFF
    assert outcome(decode, bytes(data)) == ErrorCode.CORRUPT_MESSAGE


def test_old_formats_are_refused_by_name() -> None:
    data = build_batch([Record(0, 1, b"k", b"value")])
    data[16] = 1
    with pytest.raises(KafkaError, match=r"format 1, from before Kafka 0\.11"):
        decode(bytes(data))


def marker(offset: int, producer_id: int, commit: bool) -> bytearray:
    record = Record(0, 1, b"\0\0\0" + bytes([commit]), b"\0\0\0\0\0\0")
    return build_batch(
        [record],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
        control=True,
    )


def transactional(offset: int, producer_id: int, value: bytes) -> bytearray:
    return build_batch(
        [Record(0, 1, None, value)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
    )


def test_aborted_transactions_are_hidden_and_markers_always() -> None:
    data = b"".join(
        (
            transactional(0, 1, b"aborted"),
            transactional(1, 2, b"committed"),
            build_batch([Record(0, 1, None, b"plain")], base_offset=2, producer_id=1),
            marker(3, 1, commit=False),
            transactional(4, 1, b"tried again"),
            marker(5, 2, commit=True),
            marker(6, 1, commit=True),
        )
    )
    committed, next_offset = decode(data, aborted=[(1, 0)])
    assert [row[1] for row in committed] == [b"committed", b"plain", b"tried again"]
    assert next_offset == 7
    everything, _ = decode(data)
    assert [row[1] for row in everything] == [b"aborted", b"committed", b"plain", b"tried again"]


def test_a_fetch_that_lies_beyond_the_end_is_done() -> None:
    data = bytes(build_batch([Record(0, 1, None, b"later")], base_offset=90))
    assert decode(data, start=5, end=50) == ([], 50)


def test_an_emptied_batch_only_moves_the_offset() -> None:
    header = bytearray(HEADER.pack(4, 49, 0, 2, 0, 0, 9, 0, 0, -1, -1, -1, 0))
    assert kernels.decode(header, start=4, end=99, with_headers=False, check_crcs=False)[1] == 14


def test_keys_of_headers_that_are_not_text_are_made_readable() -> None:
    data = build_batch([Record(0, 1, None, None, [("\udcff", b"x")])])
    assert decode(bytes(data))[0][0][5] == [{"key": "\ufffd", "value": b"x"}]


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(wrap: Callable[[bytes], Any]) -> None:
    data = bytes(build_batch([Record(0, 1, b"k", b"v" * 5_000_000)]))
    columns, _ = kernels.decode(wrap(data), start=0, end=1, with_headers=False)
    assert columns.values.to_pylist() == [b"v" * 5_000_000]
    assert columns.headers is None


def test_what_arrow_cannot_hold_is_left_for_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.records.kernels.batches.MOST_BYTES", 2500)
    batches = [build_batch([Record(0, 1, None, b"x" * 1000)], base_offset=offset) for offset in range(5)]
    found, at = [], 0
    while at < 5:
        rows_of_call, next_offset = decode(b"".join(batches), start=at, end=5)
        assert at < next_offset <= at + 2
        found += [row[2] for row in rows_of_call]
        at = next_offset
    assert found == list(range(5))


@given(
    st.lists(
        st.tuples(
            st.integers(1, 4), st.integers(0, 3), st.sampled_from(["plain", "lz4", "transaction", "abort"])
        ),
        max_size=6,
    ),
    st.none() | st.lists(st.tuples(st.just(1), st.integers(0, 20)), max_size=3),
    st.integers(0, 25),
    st.integers(0, 30),
    st.integers(0, 70),
)
def test_a_fetch_of_all_kinds_is_read_as_the_reference_reads_it(
    kinds: list[tuple[int, int, str]], aborted: Any, start: int, end: int, cut: int
) -> None:
    data = bytearray()
    offset = 0
    for count, gap, kind in kinds:
        offset += gap
        batch = [Record(0, 1, b"k", b"%d" % (offset + number)) for number in range(count)]
        if kind == "abort":
            data += marker(offset, 1, commit=False)
            count = 1
        elif kind == "transaction":
            data += build_batch(
                batch, base_offset=offset, producer_id=1, producer_epoch=0, transactional=True
            )
        else:
            data += build_batch(batch, base_offset=offset, codec=Codec.LZ4 if kind == "lz4" else Codec.NONE)
        offset += count
    fetched = bytes(data[: max(len(data) - cut, 0)])
    columns, next_offset = kernels.decode(fetched, start=start, end=end, with_headers=True, aborted=aborted)
    wanted, wanted_offset = reference.decode(fetched, start, end, True, aborted, True)
    assert (rows(columns), next_offset) == (rows(wanted), wanted_offset)
