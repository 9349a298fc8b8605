"""Compression codecs of record batches: gzip, snappy, lz4 and zstd.

gzip uses zlib from the standard library: as fast as cramjam for reading, faster for writing at Kafka's level, and
bounded by design. The other codecs use cramjam. No code here trusts a size claimed by the data.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from struct import Struct
from typing import Any

import cramjam

from ottla.protocol.errors import ErrorCode, KafkaError

Buffer = bytes | bytearray | memoryview

#: Larger batches are rejected, whether by claim or by content. Producers close a batch at a few megabytes of
#: uncompressed records, so only a decompression bomb comes close.
MAX_DECOMPRESSED_SIZE = 128 * 1024 * 1024

GZIP_WRAPPER = 31  # zlib's window bits for "deflate, largest window, gzip header and trailer"

# xerial's framing, written by the Java client: magic, version, lowest compatible version, then blocks. Each block is an
# int32 length followed by raw snappy.
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_BLOCK_SIZE = 32 * 1024
# The densest snappy element expands 3 bytes to 64. A larger claim is false and is rejected without decompressing.
SNAPPY_MAX_RATIO = 22

LZ4_DEFAULT_LEVEL = 9

_INT32 = Struct(">i")
# Leading bytes by codec; snappy has either xerial's magic or none.
_MAGIC = {1: b"\x1f\x8b", 3: b"\x04\x22\x4d\x18", 4: b"\x28\xb5\x2f\xfd"}
# Maximum compression ratio by codec. zstd has none, since a block of one repeated byte can have any length.
_MAX_RATIO = {0: 1, 1: 1032, 2: SNAPPY_MAX_RATIO, 3: 256}


class Codec(IntEnum):
    """Codec id in the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of(cls, value: int) -> Codec:
        try:
            return cls(value)
        except ValueError:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"no compression codec has the number {value}"
            ) from None


class TooLargeError(KafkaError):
    """Raised if the decompressed data exceeds the allowed size."""

    def __init__(self, max_size: int) -> None:
        super().__init__(
            ErrorCode.CORRUPT_MESSAGE,
            f"the records cannot be decompressed: they are larger than {max_size} bytes",
        )


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress data. The default level is Kafka's default for the codec."""
    codec = Codec.of(codec)
    if codec == Codec.GZIP:
        return zlib.compress(data, -1 if level is None else level, GZIP_WRAPPER)
    if codec == Codec.SNAPPY:
        return _compress_xerial(data)
    if codec == Codec.LZ4:
        # Kafka's reader rejects linked blocks, and Kafka's default level means the fast compressor.
        compressor = cramjam.lz4.Compressor(
            level=1 if level is None or level == LZ4_DEFAULT_LEVEL else level,
            content_checksum=False,
            block_linked=False,
        )
        compressor.compress(bytes(data))  # cramjam accepts only bytes here
        return bytes(compressor.finish())
    if codec == Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, 3 if level is None else level))
    return bytes(data)


def decompress(codec: int, data: Buffer, max_size: int = MAX_DECOMPRESSED_SIZE) -> bytes:
    """Decompress at most `max_size` bytes. Raises KafkaError(CORRUPT_MESSAGE) for larger or truncated data."""
    codec = Codec.of(codec)
    if codec == Codec.GZIP:
        return _decompress_gzip(data, max_size)
    if codec == Codec.SNAPPY:
        return _decompress_snappy(data, max_size)
    if codec in (Codec.LZ4, Codec.ZSTD):
        return _decompress_growing(codec, data, max_size)
    if len(data) > max_size:
        raise TooLargeError(max_size)
    return bytes(data)


def frame_fault(codec: int, data: Buffer) -> str | None:
    """Return why the first bytes cannot start data of this codec, without decompressing anything."""
    view = memoryview(data)
    magic = _MAGIC.get(codec)
    if magic is not None:
        return None if view[: len(magic)] == magic else f"they are not {Codec(codec).name.lower()}"
    if codec == Codec.SNAPPY and view[:8] != XERIAL_MAGIC:
        try:
            size = cramjam.snappy.decompress_raw_len(view)
        except cramjam.DecompressionError as error:
            return str(error)
        if size > len(view) * SNAPPY_MAX_RATIO:
            return f"{len(view)} bytes of snappy cannot become {size}"
    return None


def max_decompressed_size(codec: int, size: int) -> int:
    return min(size * _MAX_RATIO.get(codec, MAX_DECOMPRESSED_SIZE), MAX_DECOMPRESSED_SIZE)


def decompress_into(codec: int, data: Buffer, target: memoryview) -> int | None:
    """Decompress lz4 or zstd into `target`. Return the number of bytes, or None if they do not fit."""
    module = cramjam.lz4 if codec == Codec.LZ4 else cramjam.zstd
    try:
        return int(module.decompress_into(data, target))
    except cramjam.DecompressionError as error:
        if "whole buffer" not in str(error):
            raise _corrupt(error) from None
        return None


def _corrupt(reason: object) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the records cannot be decompressed: {reason}")


def _decompress_gzip(data: Buffer, max_size: int) -> bytes:
    parts = []
    left = max_size
    while True:  # a gzip stream may consist of several members
        member = zlib.decompressobj(GZIP_WRAPPER)
        try:
            part = member.decompress(data, left + 1)
        except zlib.error as error:
            raise _corrupt(error) from None
        left -= len(part)
        if left < 0:
            raise TooLargeError(max_size)
        if not member.eof:
            raise _corrupt("the gzip stream ends too early")
        parts.append(part)
        data = member.unused_data
        if not data:
            return part if len(parts) == 1 else b"".join(parts)


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts: list[Any] = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK_SIZE):
        block = cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_SIZE])
        parts += _INT32.pack(len(block)), block
    return b"".join(parts)


def _decompress_snappy(data: Buffer, max_size: int) -> bytes:
    view = memoryview(data)
    if view[:8] != XERIAL_MAGIC:
        return bytes(_decompress_snappy_block(view, max_size))
    parts = []
    position = 0
    while position < len(view):
        if view[position : position + 8] == XERIAL_MAGIC:  # covers concatenated streams as well
            position += len(XERIAL_HEADER)
            if position > len(view):
                raise _corrupt("the snappy header ends too early")
            continue
        if position + 4 > len(view):
            raise _corrupt("a snappy block ends too early")
        (length,) = _INT32.unpack_from(view, position)
        position += 4
        if not 0 <= length <= len(view) - position:
            raise _corrupt(f"a snappy block of {length} bytes with {len(view) - position} left")
        part = _decompress_snappy_block(view[position : position + length], max_size)
        max_size -= len(part)
        parts.append(part)
        position += length
    return b"".join(parts)


def _decompress_snappy_block(view: memoryview, max_size: int) -> bytearray:
    try:
        size = cramjam.snappy.decompress_raw_len(view)
        if size > max_size:
            raise TooLargeError(max_size)
        if size > len(view) * SNAPPY_MAX_RATIO:
            raise _corrupt(f"{len(view)} bytes of snappy cannot become {size}")
        block = bytearray(size)
        cramjam.snappy.decompress_raw_into(view, block)
    except cramjam.DecompressionError as error:
        raise _corrupt(error) from None
    return block


def _decompress_growing(codec: int, data: Buffer, max_size: int) -> bytes:
    # Both formats may omit the content size, and cramjam's own growing buffer has no limit.
    size = min(max(4 * len(data), 64 * 1024), max_size)
    while True:
        output = memoryview(bytearray(size))
        length = decompress_into(codec, data, output)
        if length is not None:
            return bytes(output[:length])
        if size == max_size:
            raise TooLargeError(max_size)
        size = min(4 * size, max_size)
