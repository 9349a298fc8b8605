"""Records of all formats: batches, the message sets before Kafka 0.11, and control batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct

from crc32c import crc32c

from ottla.protocol.batch_header import (
    ATTRIBUTES_AT,
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_AT,
    CREATE_TIME,
    HEADER,
    LEAST_LENGTH,
    LENGTH_AT,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    check_crc,
    corrupt,
    invalid,
    read_header,
)
from ottla.protocol.compression import (
    MAX_DECOMPRESSED_SIZE,
    Buffer,
    Codec,
    TooLargeError,
    compress,
    decompress,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.record_format import (
    LEAST_RECORD,
    Header,
    Record,
    parse_records,
    timestamps,
    write_records,
)

# Messages of formats 0 and 1, written by Kafka before 0.11. Read-only support.
#
#     offset 8 | length 4 | crc 4 | magic 1 | attributes 1 | timestamp 8 (format 1) | key length 4, key
#     | value length 4, value
#
# The value of a compressed message is a message set; its offset is the offset of the last message inside. Only format 0
# with lz4 is unsupported: its frames carry a header checksum that no lz4 library accepts.

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


# Record batches: the unit of transport, storage and compression.
#
# The broker's hot path uses only `read_header` and `check_crc`; all other functions read or write single records.
#
# A fault of the whole batch is CORRUPT_MESSAGE, a fault of a single record INVALID_RECORD. Claimed sizes and counts are
# checked against the actual bytes before anything is allocated. Batches of version 2 are read and written; message
# formats from before Kafka 0.11 can be read wherever a batch can.

__all__ = [
    "BATCH_OVERHEAD",
    "CREATE_TIME",
    "LOG_APPEND_TIME",
    "LOG_OVERHEAD",
    "MAGIC",
    "NO_TIMESTAMP",
    "BatchHeader",
    "Codec",
    "Header",
    "Record",
    "batch_body",
    "build_batch",
    "check_crc",
    "first_at_or_after",
    "max_timestamp_record",
    "read_batch",
    "read_header",
    "read_records",
    "recompress",
    "record_timestamps",
]

_INT16 = Struct(">h")
_UINT32 = Struct(">I")


def read_batch(buf: Buffer, pos: int = 0, max_size: int = MAX_DECOMPRESSED_SIZE) -> list[Record]:
    """Return the records of the complete batch at `pos`, without checking its checksum (see `check_crc`).

    Raises TooLargeError if the records exceed `max_size` bytes after decompression.
    """
    header = read_header(buf, pos)
    if header.magic < MAGIC:
        return read_message(buf, pos, header)
    return parse_records(batch_body(buf, pos, header, max_size), header)


def read_records(buf: Buffer) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Yield every complete batch of a fetch response; a truncated last batch is skipped."""
    pos = 0
    while pos + LOG_OVERHEAD <= len(buf):
        (length,) = _INT32.unpack_from(buf, pos + LENGTH_AT)
        if pos + LOG_OVERHEAD + max(length, LEAST_LENGTH[0]) > len(buf):
            return
        header = read_header(buf, pos)
        yield header, read_batch(buf, pos)
        pos += header.size


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    codec: int = Codec.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    partition_leader_epoch: int = -1,
    timestamp_type: int = CREATE_TIME,
    transactional: bool = False,
    control: bool = False,
    keep_offsets: bool = False,
) -> bytearray:
    """Build a batch of at least one record.

    Records get consecutive offsets from `base_offset` on. With `keep_offsets` they keep their own offsets, which must
    ascend and not be lower than `base_offset`.
    """
    records = records if isinstance(records, (list, tuple)) else list(records)
    if not records:
        raise ValueError("a batch needs at least one record")
    base_timestamp = records[0].timestamp
    body = write_records(records, base_offset if keep_offsets else None, base_timestamp)
    if codec:
        body = compress(codec, body, level)
    attributes = int(codec)
    if timestamp_type == LOG_APPEND_TIME:
        attributes |= TIMESTAMP_TYPE_FLAG
    if transactional:
        attributes |= TRANSACTIONAL_FLAG
    if control:
        attributes |= CONTROL_FLAG
    batch = bytearray(
        HEADER.pack(
            base_offset,
            BATCH_OVERHEAD - LOG_OVERHEAD + len(body),
            partition_leader_epoch,
            MAGIC,
            0,
            attributes,
            records[-1].offset - base_offset if keep_offsets else len(records) - 1,
            base_timestamp,
            max([record.timestamp for record in records]),
            producer_id,
            producer_epoch,
            base_sequence,
            len(records),
        )
    )
    batch += body
    _seal(batch)
    return batch


def recompress(batch: Buffer, codec: int, level: int | None = None, body: bytes | None = None) -> bytearray:
    """Return the batch with its records recompressed in another codec. `body` avoids decompressing them again."""
    header = read_header(batch)
    if header.magic < MAGIC:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"messages of format {header.magic} are never written"
        )
    codec = Codec.of(codec)
    if body is None:
        body = batch_body(batch, 0, header)
    if codec:
        body = compress(codec, body, level)
    result = bytearray(memoryview(batch)[:BATCH_OVERHEAD])
    result += body
    _INT32.pack_into(result, LENGTH_AT, len(result) - LOG_OVERHEAD)
    _INT16.pack_into(result, ATTRIBUTES_AT, header.attributes & ~CODEC_MASK | codec)
    _seal(result)
    return result


def first_at_or_after(batch: Buffer, timestamp: int) -> tuple[int, int] | None:
    for found in record_timestamps(batch):
        if found[1] >= timestamp:
            return found
    return None


def max_timestamp_record(batch: Buffer) -> tuple[int, int] | None:
    """Return offset and timestamp of the first record with the largest timestamp, or None without timestamps."""
    largest = NO_TIMESTAMP
    result = None
    for found in record_timestamps(batch):
        if found[1] > largest:
            largest = found[1]
            result = found
    return result


def record_timestamps(batch: Buffer) -> Iterator[tuple[int, int]]:
    """Return offset and timestamp of each record without decoding other fields."""
    header = read_header(batch)
    if header.magic < MAGIC:
        return ((record.offset, record.timestamp) for record in read_batch(batch))
    return timestamps(batch_body(batch, 0, header), header)


def _seal(batch: bytearray) -> None:
    _UINT32.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))


def batch_body(buf: Buffer, pos: int, header: BatchHeader, max_size: int = MAX_DECOMPRESSED_SIZE) -> bytes:
    """Return the uncompressed records as bytes. Raises TooLargeError."""
    end = pos + header.size
    if end > len(buf):
        raise corrupt(f"a batch of {header.size} bytes with {len(buf) - pos} left")
    count = header.record_count
    if count < 0:
        raise invalid(f"a batch of {count} records")
    body = memoryview(buf)[pos + BATCH_OVERHEAD : end]
    codec = header.attributes & CODEC_MASK
    if codec and body:  # a batch emptied by the cleaner has no body, not even an empty frame
        data = decompress(codec, body, max_size)
    else:
        if len(body) > max_size:
            raise TooLargeError(max_size)
        data = bytes(body)
    if count * LEAST_RECORD > len(data):
        raise invalid(f"{count} records in {len(data)} bytes")
    return data


# Commit and abort markers: the control batches that end a transaction in a partition.

ABORT, COMMIT = 0, 1
MARKER_BYTES = 78
_KEY = Struct(">hh")  # version, type
_VALUE = Struct(">hi")  # version, coordinator epoch


def build_marker(
    producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int, timestamp: int
) -> bytearray:
    record = Record(
        0, timestamp, _KEY.pack(0, COMMIT if commit else ABORT), _VALUE.pack(0, coordinator_epoch)
    )
    return build_batch(
        [record], producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True
    )


def read_marker(batch: Buffer) -> tuple[int, bool] | None:
    """Return the coordinator epoch and True for an abort.

    None for other control batches and for batches emptied by the cleaner.
    """
    records = read_batch(batch)
    if not records:
        return None
    key, value = records[0].key, records[0].value
    if key is None or value is None or len(key) < _KEY.size or len(value) < _VALUE.size:
        return None
    kind = _KEY.unpack_from(key)[1]
    if kind not in (ABORT, COMMIT):
        return None
    return _VALUE.unpack_from(value)[1], kind == ABORT
