"""Messages of formats 0 and 1, written by Kafka before 0.11. Read-only support.

    offset 8 | length 4 | crc 4 | magic 1 | attributes 1 | timestamp 8 (format 1) | key length 4, key
    | value length 4, value

The value of a compressed message is a message set; its offset is the offset of the last message inside. Only format 0
with lz4 is unsupported: its frames carry a header checksum that no lz4 library accepts.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from ottla.protocol.batch_header import (
    CODEC_MASK,
    LEAST_LENGTH,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    check_crc,
    corrupt,
    invalid,
    read_header,
)
from ottla.protocol.compression import Buffer, decompress
from ottla.protocol.record_format import Record

_INT32 = Struct(">i")
_KEY_AT = tuple(LOG_OVERHEAD + length - 8 for length in LEAST_LENGTH)


def read_message(buf: Buffer, pos: int, header: BatchHeader) -> list[Record]:
    """Return the record at `pos`, or the records inside a compressed message."""
    record = _read_one(buf, pos, header)
    codec = header.attributes & CODEC_MASK
    if not codec:
        return [record]
    if record.value is None:
        raise invalid("a compressed message without a value")
    records = list(_read_inner(decompress(codec, record.value)))
    if not records:
        raise invalid("a compressed message with nothing in it")
    if header.magic > 0:
        # Format 1 numbers the inner messages from 0, so that brokers can assign offsets without recompressing.
        base_offset = header.base_offset - records[-1].offset
        for inner in records:
            inner.offset += base_offset
            if header.timestamp_type == LOG_APPEND_TIME:
                inner.timestamp = header.max_timestamp
    return records


def _read_inner(data: bytes) -> Iterator[Record]:
    pos = 0
    while pos < len(data):
        header = read_header(data, pos)
        if header.magic >= MAGIC or header.attributes & CODEC_MASK:
            raise invalid("a compressed message within a compressed message")
        if not check_crc(data, pos, header):
            raise corrupt("a message within a compressed message has a wrong checksum")
        yield _read_one(data, pos, header)
        pos += header.size


def _read_one(buf: Buffer, pos: int, header: BatchHeader) -> Record:
    end = pos + header.size
    if end > len(buf):
        raise corrupt(f"a message of {header.size} bytes with {len(buf) - pos} left")
    view = memoryview(buf)[:end]
    key, pos = _nullable_bytes(view, pos + _KEY_AT[header.magic])
    value, pos = _nullable_bytes(view, pos)
    if pos != end:
        raise invalid("the length of a message is not that of its fields")
    return Record(header.base_offset, header.max_timestamp, key, value)


def _nullable_bytes(view: memoryview, pos: int) -> tuple[bytes | None, int]:
    start = pos + 4
    if start > len(view):
        raise invalid("a message ends before its fields")
    (length,) = _INT32.unpack_from(view, pos)
    if length == -1:
        return None, start
    end = start + length
    if length < 0 or end > len(view):
        raise invalid(f"a field of {length} bytes goes beyond its message")
    return bytes(view[start:end]), end
