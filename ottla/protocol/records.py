"""Record batches: the unit of transport, storage and compression.

The broker's hot path uses only `read_header` and `check_crc`; all other functions read or write single records.

A fault of the whole batch is CORRUPT_MESSAGE, a fault of a single record INVALID_RECORD. Claimed sizes and counts are
checked against the actual bytes before anything is allocated. Batches of version 2 are read and written; message
formats from before Kafka 0.11 can be read wherever a batch can.
"""

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
from ottla.protocol.message_set import read_message
from ottla.protocol.record_format import (
    LEAST_RECORD,
    Header,
    Record,
    parse_records,
    timestamps,
    write_records,
)

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
_INT32 = Struct(">i")
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
