"""Every codec reads its own and other implementations' output, and trusts no size claimed in the data."""

from __future__ import annotations

import time
import tracemalloc
import zlib
from struct import pack

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.compression import (
    MAX_DECOMPRESSED_SIZE,
    XERIAL_HEADER,
    Codec,
    compress,
    decompress,
)
from ottla.protocol.errors import ErrorCode, KafkaError

CODECS = list(Codec)
COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]

THEIRS = {
    Codec.GZIP: (aiokafka_codec.gzip_encode, aiokafka_codec.gzip_decode),
    Codec.SNAPPY: (aiokafka_codec.snappy_encode, aiokafka_codec.snappy_decode),
    Codec.LZ4: (aiokafka_codec.lz4_encode, aiokafka_codec.lz4_decode),
    Codec.ZSTD: (aiokafka_codec.zstd_encode, aiokafka_codec.zstd_decode),
}

SAMPLES = [b"a", b"abc" * 50_000, bytes(range(256)) * 700]


def refusal(codec: int, data: bytes, max_size: int = MAX_DECOMPRESSED_SIZE) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        decompress(codec, data, max_size)
    return caught.value.code


def read_anyhow(codec: int, data: bytes) -> None:
    try:
        decompress(codec, data, 1 << 20)
    except KafkaError as error:
        if error.code != ErrorCode.CORRUPT_MESSAGE:
            raise


@pytest.mark.parametrize("codec", CODECS)
@given(
    data=st.binary(max_size=200) | st.builds(lambda b, n: b * n, st.binary(max_size=50), st.integers(0, 9000))
)
def test_what_was_compressed_comes_back(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", [bytes, bytearray, lambda data: memoryview(b"__" + data)[2:]])
def test_every_kind_of_buffer_is_taken(codec: Codec, kind) -> None:
    compressed = compress(codec, kind(b"ottla" * 1000))
    result = decompress(codec, kind(compressed))
    assert type(result) is bytes
    assert result == b"ottla" * 1000


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("data", SAMPLES)
def test_aiokafka_reads_ours_and_we_read_aiokafkas(codec: Codec, data: bytes) -> None:
    encode, decode = THEIRS[codec]
    assert decode(compress(codec, data)) == data
    assert decompress(codec, encode(data)) == data


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, (1, 9)), (Codec.LZ4, (1, 12)), (Codec.ZSTD, (-5, 19))]
)
def test_a_level_can_be_chosen(codec: Codec, levels: tuple[int, int]) -> None:
    data = b"".join(b"%d %d;" % (i, i * i) for i in range(5000))
    fast, thorough = (compress(codec, data, level) for level in levels)
    assert fast != thorough
    assert decompress(codec, fast) == decompress(codec, thorough) == data


def test_kafkas_default_level_of_lz4_is_the_fast_one() -> None:
    data = b"".join(b"%d %d;" % (i, i * i) for i in range(5000))
    assert compress(Codec.LZ4, data, 9) == compress(Codec.LZ4, data) == compress(Codec.LZ4, data, 1)


def test_snappy_is_written_in_xerials_framing() -> None:
    assert compress(Codec.SNAPPY, b"ottla").startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")


def test_snappy_without_a_framing_is_read() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(b"ottla" * 100))) == b"ottla" * 100


def test_two_streams_one_after_another_are_one() -> None:
    for codec in COMPRESSING:
        assert decompress(codec, compress(codec, b"one") + compress(codec, b"two")) == b"onetwo"


def test_lz4_frames_have_independent_blocks_as_kafka_demands() -> None:
    frame = compress(Codec.LZ4, b"ottla" * 100_000)
    assert frame[:4] == b"\x04\x22\x4d\x18"
    assert frame[4] & 0x20  # block independence
    assert not frame[4] & 0x08  # no content size


def test_lz4_frames_of_linked_blocks_are_read() -> None:
    data = b"".join(b"%d" % i for i in range(100_000))
    assert decompress(Codec.LZ4, bytes(cramjam.lz4.compress(data))) == data


@pytest.mark.parametrize("number", [-1, 5, 6, 7, 1000])
def test_a_number_that_is_no_codec_is_an_unsupported_compression_type(number: int) -> None:
    assert refusal(number, b"data") == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    with pytest.raises(KafkaError) as caught:
        compress(number, b"data")
    assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("codec", CODECS)
def test_the_largest_size_is_exact(codec: Codec) -> None:
    compressed = compress(codec, b"x" * 100_000)
    assert decompress(codec, compressed, 100_000) == b"x" * 100_000
    assert refusal(codec, compressed, 99_999) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_is_refused_before_it_fills_the_memory(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 << 20))
    tracemalloc.start()
    try:
        assert refusal(codec, bomb, 1 << 20) == ErrorCode.CORRUPT_MESSAGE
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff\x07",  # raw snappy that claims 2 GiB, without data
        b"\xff\xff\xff\x0f" + bytes(10),
        XERIAL_HEADER + pack(">i", 0x7FFFFFFF) + b"abc",
        XERIAL_HEADER + pack(">i", -5) + b"abc",
        XERIAL_HEADER + b"\0\0",
        XERIAL_HEADER[:12],
        XERIAL_HEADER + pack(">i", 5) + b"\xff\xff\xff\xff\x07",
        XERIAL_HEADER + pack(">i", 0),
    ],
)
def test_snappy_that_lies_about_its_size_allocates_nothing(data: bytes) -> None:
    tracemalloc.start()
    try:
        assert refusal(Codec.SNAPPY, data) == ErrorCode.CORRUPT_MESSAGE
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_stream_that_was_cut_off_is_corrupt(codec: Codec) -> None:
    data = (
        bytes(cramjam.snappy.compress_raw(b"ottla" * 20))
        if codec == Codec.SNAPPY
        else compress(codec, b"ottla" * 20)
    )
    for end in range(len(data)):
        assert refusal(codec, data[:end]) == ErrorCode.CORRUPT_MESSAGE


def test_garbage_after_a_gzip_stream_is_corrupt() -> None:
    assert refusal(Codec.GZIP, zlib.compress(b"ottla", 6, 31) + b"garbage") == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", COMPRESSING)
@given(data=st.data())
def test_damage_is_an_error_or_other_bytes_but_nothing_else(codec: Codec, data: st.DataObject) -> None:
    damaged = bytearray(compress(codec, b"The quick brown fox jumps over the lazy dog. " * 20))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    began = time.process_time()
    read_anyhow(codec, damaged)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("codec", COMPRESSING)
@given(data=st.binary(max_size=300))
def test_random_bytes_are_an_error_or_other_bytes_but_nothing_else(codec: Codec, data: bytes) -> None:
    read_anyhow(codec, data)
