"""Reading a batch of arbitrary bytes ends quickly, with records or with one of two error codes."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from struct import pack_into

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.protocol.compression import Codec, compress
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.record_format import framing_fault, survey
from ottla.protocol.records import (
    BATCH_OVERHEAD,
    Record,
    batch_body,
    build_batch,
    check_crc,
    first_at_or_after,
    max_timestamp_record,
    read_batch,
    read_header,
    read_records,
    recompress,
)

ALLOWED = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
}
SOME = [
    Record(0, 1_700_000_000_000 + 10_000 * index, b"key-%d" % index, b"v" * index, [("h", b"x"), ("", None)])
    for index in range(20)
]
CODECS = list(Codec)


def old_messages(magic: int, codec: int) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for record in SOME:
        builder.append(record.offset, record.timestamp, record.key, record.value)
    return bytes(builder.build())


READERS: list[Callable[[bytes], object]] = [
    read_header,
    read_batch,
    lambda data: list(read_records(data)),
    lambda data: list(survey(batch_body(data, 0, read_header(data)), read_header(data))),
    lambda data: framing_fault(data, BATCH_OVERHEAD, read_header(data).record_count, in_full=8, by_length=32),
    lambda data: first_at_or_after(data, 2**62),
    max_timestamp_record,
    lambda data: recompress(data, Codec.NONE),
    lambda data: check_crc(data, 0, read_header(data)),
]


def read_every_way(data: bytes) -> None:
    for reader in READERS:
        try:
            reader(data)
        except KafkaError as error:
            if error.code not in ALLOWED:
                raise


def refusal(data: bytes) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        read_batch(data)
    return caught.value.code


def with_body(body: bytes, count: int = 1, codec: int = 0, last_offset_delta: int = 10) -> bytearray:
    """Return a batch with a valid header around arbitrary records."""
    batch = build_batch(SOME[:1], codec=Codec.NONE)[:BATCH_OVERHEAD]
    batch += body
    pack_into(">i", batch, 8, len(batch) - 12)
    pack_into(">h", batch, 21, codec)
    pack_into(">i", batch, 23, last_offset_delta)
    pack_into(">i", batch, 57, count)
    return batch


@given(st.binary(max_size=400))
@example(b"")
@example(bytes(61))
@example(b"\xff" * 200)
def test_random_bytes(data: bytes) -> None:
    read_every_way(data)


@given(magic=st.integers(0, 2), data=st.binary(max_size=200), attributes=st.integers(0, 255))
def test_random_bytes_behind_a_right_length_and_magic(magic: int, data: bytes, attributes: int) -> None:
    buffer = bytearray(61) + data
    pack_into(">i", buffer, 8, len(buffer) - 12)
    buffer[16] = magic
    buffer[22 if magic == 2 else 17] = attributes
    read_every_way(bytes(buffer))


@given(body=st.binary(max_size=200), count=st.integers(-2, 40), codec=st.sampled_from(CODECS))
def test_random_bytes_in_place_of_records(body: bytes, count: int, codec: Codec) -> None:
    read_every_way(with_body(compress(codec, body), count, codec))


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
def test_damaged_records_inside_a_sound_batch(codec: Codec, data: st.DataObject) -> None:
    body = bytearray(build_batch(SOME)[BATCH_OVERHEAD:])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    read_every_way(with_body(compress(codec, bytes(body)), len(SOME), codec, len(SOME) - 1))


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
def test_damaged_batches(codec: Codec, data: st.DataObject) -> None:
    batch = build_batch(SOME, codec=codec)
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    read_every_way(bytes(batch))


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_cut_off_anywhere(codec: Codec) -> None:
    batch = bytes(build_batch(SOME, codec=codec))
    for end in range(len(batch)):
        assert refusal(batch[:end]) == ErrorCode.CORRUPT_MESSAGE
        read_every_way(batch[:end])


@pytest.mark.parametrize("codec", CODECS)
def test_records_cut_off_anywhere_inside_a_sound_batch(codec: Codec) -> None:
    body = bytes(build_batch(SOME[:3])[BATCH_OVERHEAD:])
    for end in range(len(body)):
        batch = with_body(compress(codec, body[:end]), 3, codec)
        assert refusal(batch) == ErrorCode.INVALID_RECORD
        read_every_way(batch)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_old_messages_cut_off_or_damaged_anywhere(magic: int, codec: Codec) -> None:
    message = old_messages(magic, codec)
    for end in range(len(message)):
        read_every_way(message[:end])
        for value in (0, 1, 127, 128, 255):
            damaged = bytearray(message)
            damaged[end] = value
            read_every_way(bytes(damaged))


NULL, ZERO = b"\x01", b"\x00"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x0d" + bytes(7), id="negative record length"),
        pytest.param(b"\xfe\xff\xff\xff\x0f" + bytes(7), id="record of 2 GiB"),
        pytest.param(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + bytes(7), id="record length of ten bytes"),
        pytest.param(b"\xfe\xff\xff\xff\x7f" + bytes(7), id="record length above int32"),
        pytest.param(b"\x0c\0\0\0\x03\x01\0", id="key length -2"),
        pytest.param(b"\x0c\0\0\0\x01\x03\0", id="value length -2"),
        pytest.param(b"\x0c\0\0\0\x01\x01\x01", id="header count -1"),
        pytest.param(b"\x14\0\0\0\xfe\xff\xff\xff\x0f\x01\0", id="key of 2 GiB"),
        pytest.param(b"\x14\0\0\0\x01\xfe\xff\xff\xff\x0f\0", id="value of 2 GiB"),
        pytest.param(b"\x14\0\0\0\x01\x01\xfe\xff\xff\xff\x0f", id="2 G headers"),
        pytest.param(b"\x10\0\0\0\x01\x01\x02\x01\x01", id="header without a key"),
        pytest.param(b"\x10\0\0\0\x01\x01\x02\0\x03", id="header value length -2"),
        pytest.param(b"\x0c\0\0\x01\x01\x01\0", id="offset before the batch"),
        pytest.param(b"\x0c\0\0\x16\x01\x01\0", id="offset after the batch"),
        pytest.param(b"\x20\0" + b"\xff" * 10 + b"\0\x01\x01\0", id="endless timestamp"),
        pytest.param(b"\x0e\0\0\0\x01\x01\0\0", id="a byte more than the fields"),
        pytest.param(b"\x0a\0\0\0\x01\x01\0", id="a byte less than the fields"),
        pytest.param(b"\x0c\0\0\0\x01\x01\0junk", id="bytes after the last record"),
    ],
)
@pytest.mark.parametrize("codec", CODECS)
def test_records_that_lie(body: bytes, codec: Codec) -> None:
    batch = with_body(compress(codec, body), 1, codec)
    assert refusal(batch) == ErrorCode.INVALID_RECORD
    read_every_way(batch)


def test_timestamps_outside_int64_are_invalid() -> None:
    batch = with_body(b"\x1e\0" + b"\xfe" + b"\xff" * 8 + b"\x01" + b"\0\x01\x01\0")
    assert refusal(batch) == ErrorCode.INVALID_RECORD
    for lookup in (max_timestamp_record, lambda b: first_at_or_after(b, 0)):
        with pytest.raises(KafkaError):
            lookup(batch)
    pack_into(">q", batch, 27, 2**63 - 1)
    assert refusal(batch) == ErrorCode.INVALID_RECORD
    pack_into(">q", batch, 27, -1)
    assert read_batch(batch)[0].timestamp == 2**63 - 2


@pytest.mark.parametrize("count", [-(2**31), -1, 2, 2**31 - 1])
def test_a_count_that_cannot_be_is_refused_at_once(count: int) -> None:
    batch = with_body(b"\x0c\0\0\0\x01\x01\0", count)
    assert refusal(batch) == ErrorCode.INVALID_RECORD
    read_every_way(batch)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_a_batch_length_below_the_header_is_corrupt(length: int) -> None:
    batch = build_batch(SOME)
    pack_into(">i", batch, 8, length)
    assert refusal(batch) == ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(KafkaError):
        list(read_records(batch))


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_an_unknown_magic_is_corrupt(magic: int) -> None:
    batch = build_batch(SOME)
    batch[16] = magic
    assert refusal(batch) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_named(codec: int) -> None:
    batch = with_body(b"\x0c\0\0\0\x01\x01\0", 1, codec)
    assert refusal(batch) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    with pytest.raises(KafkaError):
        _ = read_header(batch).codec


def test_claimed_lengths_take_neither_memory_nor_time() -> None:
    began = time.process_time()
    tracemalloc.start()
    try:
        for body in (b"\x14\0\0\0\x01\x01\xfe\xff\xff\xff\x0f", b"\x14\0\0\0\xfe\xff\xff\xff\x0f\x01\0"):
            read_every_way(with_body(body, 1))
            read_every_way(with_body(body, 2**31 - 1))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 2


def test_a_compressed_message_within_a_compressed_message_is_not_followed() -> None:
    message = old_messages(0, Codec.GZIP)
    for _ in range(3):
        value = compress(Codec.GZIP, message)
        builder = LegacyRecordBatchBuilder(0, Codec.NONE, 1 << 20)
        builder.append(0, None, None, value)
        wrapped = bytearray(builder.build())
        wrapped[17] = Codec.GZIP
        assert refusal(bytes(wrapped)) == ErrorCode.INVALID_RECORD
        message = bytes(wrapped)
