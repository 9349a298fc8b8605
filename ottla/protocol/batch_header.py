"""The header of a record batch, the only part read on the broker's hot path.

    base offset 8 | length 4 | leader epoch 4 | magic 1 | crc 4 | attributes 2 | last offset delta 4
    | base timestamp 8 | max timestamp 8 | producer id 8 | producer epoch 2 | base sequence 4 | count 4

The CRC covers everything from the attributes on. The broker can therefore patch base offset and leader epoch in place
without invalidating the checksum. Messages of formats 0 and 1 have a shorter header (see `message_set`), which is
converted to this one.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple
from zlib import crc32

from crc32c import crc32c

from ottla.protocol.compression import Buffer, Codec
from ottla.protocol.errors import ErrorCode, KafkaError

MAGIC = 2
BATCH_OVERHEAD = 61
#: Base offset and length: present in every format, and not counted by the length.
LOG_OVERHEAD = 12
#: Minimum length after these fields, by magic.
LEAST_LENGTH = (14, 22, BATCH_OVERHEAD - LOG_OVERHEAD)

NO_TIMESTAMP = -1
CREATE_TIME = 0
LOG_APPEND_TIME = 1

CODEC_MASK = 0x07
TIMESTAMP_TYPE_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
#: The base timestamp holds the delete horizon of the batch's tombstones (KIP-534); timestamp deltas still count from
#: it.
DELETE_HORIZON_FLAG = 0x40

HEADER = Struct(">qiibIhiqqqhii")
LENGTH_AT = 8
CRC_AT = 17
ATTRIBUTES_AT = 21

_OLD_HEADER = Struct(">qiIbbq")
_MAGIC_AT = 16
_OLD_CRC_FROM = 16


class BatchHeader(NamedTuple):
    """All fields of a batch except its records.

    A message of format 0 or 1 has the offset of its last record, and a count of -1 (unknown).
    """

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Return the sequence number of the last record. Sequences wrap to 0 after the largest int32."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> Codec:
        return Codec.of(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> int:
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_FLAG else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Read the header at `pos`. The batch may extend beyond the end of the buffer."""
    available = len(buf) - pos
    if available <= _MAGIC_AT:
        raise corrupt(f"{available} bytes are too few for a batch")
    magic = buf[pos + _MAGIC_AT]
    if magic == MAGIC:
        if available < BATCH_OVERHEAD:
            raise corrupt(f"{available} bytes are too few for the header of a batch")
        # Bypass NamedTuple's own constructor, which would double the cost of this function.
        header = tuple.__new__(BatchHeader, HEADER.unpack_from(buf, pos))
    elif magic < MAGIC:
        header = _read_old_header(buf, pos, magic, available)
    else:
        raise corrupt(f"the magic {magic} is unknown")
    if header.batch_length < LEAST_LENGTH[magic]:
        raise corrupt(f"a batch length of {header.batch_length} is less than the header's")
    return header


def _read_old_header(buf: Buffer, pos: int, magic: int, available: int) -> BatchHeader:
    if available < LOG_OVERHEAD + LEAST_LENGTH[magic]:
        raise corrupt(f"{available} bytes are too few for a message")
    offset, length, crc, _, attributes, timestamp = _OLD_HEADER.unpack_from(buf, pos)
    if magic == 0:  # no timestamp: the fields read in its place are the lengths of key and value
        timestamp = NO_TIMESTAMP
    return BatchHeader(offset, length, -1, magic, crc, attributes, 0, timestamp, timestamp, -1, -1, -1, -1)


def check_crc(buf: Buffer, pos: int, header: BatchHeader) -> bool:
    """Return True if the buffer holds the whole batch and its checksum matches the header."""
    end = pos + LOG_OVERHEAD + header.batch_length
    if end > len(buf):
        return False
    if header.magic == MAGIC:
        return crc32c(memoryview(buf)[pos + ATTRIBUTES_AT : end]) == header.crc
    return crc32(memoryview(buf)[pos + _OLD_CRC_FROM : end]) == header.crc


def corrupt(reason: str) -> KafkaError:
    """Return an error for a batch as a whole."""
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, reason)


def invalid(reason: str) -> KafkaError:
    """Return an error for a single record."""
    return KafkaError(ErrorCode.INVALID_RECORD, reason)
