"""Completion of record batches: compression, header and checksum."""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

from crc32c import crc32c

from ottla.protocol.batch_header import (
    ATTRIBUTES_AT,
    BATCH_OVERHEAD,
    CRC_AT,
    HEADER,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_FLAG,
)
from ottla.protocol.compression import compress

PRODUCER_AT = 43

_UINT32 = Struct(">I")
_PRODUCER = Struct(">qhi")
_SEQUENCES = 0x7FFFFFFF


class Seal(NamedTuple):
    """Settings shared by the batches of one call. The sequence number belongs to the first record."""

    codec: int
    level: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool

    def close(self, room: Any, count: int, base_timestamp: int, max_timestamp: int, before: int) -> bytearray:
        """Build a batch of the `count` records in `room`, whose start is reserved for the header.

        `before` is the number of records in earlier batches of the same call.
        """
        if self.codec:
            batch = bytearray(BATCH_OVERHEAD)
            batch += compress(self.codec, room[BATCH_OVERHEAD:], self.level)
        else:
            batch = bytearray(room)
        sequence = -1 if self.base_sequence < 0 else (self.base_sequence + before) & _SEQUENCES
        HEADER.pack_into(
            batch,
            0,
            0,
            len(batch) - LOG_OVERHEAD,
            -1,
            MAGIC,
            0,
            int(self.codec) | (TRANSACTIONAL_FLAG if self.transactional else 0),
            count - 1,
            base_timestamp,
            max_timestamp,
            self.producer_id,
            self.producer_epoch,
            sequence,
            count,
        )
        _UINT32.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
        return batch


def restamp(batch: bytearray, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Replace the producer id, epoch and sequence number of a batch."""
    _PRODUCER.pack_into(batch, PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    _UINT32.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
