"""The second pass by chunk: decides about batches, delegates records to the walk, and adds checksums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct

from crc32c import crc32c

from ottla.log.batch import CRC, CRC_START, header_at
from ottla.log.cleaner.walk.walk import (
    ATTRIBUTES,
    CONTROL,
    DROP_RECORDS,
    KEEP_EMPTY,
    LAST_OFFSET,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORDS,
    SET_HORIZON,
    SIZE,
    TAKE,
    Row,
    Rules,
    Walk,
)
from ottla.log.cleaner.worker.chunks import Chunk
from ottla.log.cleaner.worker.transactions import CleanedTransactions
from ottla.log.segments.transaction_index import AbortedTransaction
from ottla.protocol.batch_header import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_AT,
    DELETE_HORIZON_FLAG,
    LENGTH_AT,
    LOG_OVERHEAD,
    TRANSACTIONAL_FLAG,
)
from ottla.protocol.compression import compress, decompress
from ottla.protocol.records import read_batch

_LENGTH = Struct(">i")


class RecordFilter:
    """State of the whole second pass, in offset order. Owner: one job."""

    def __init__(
        self,
        walk: Walk,
        rules: Rules,
        transactions: CleanedTransactions,
        producers: Iterable[tuple[int, int, int]],
    ) -> None:
        self._walk = walk
        self._rules = rules
        self._transactions = transactions
        self._producers = {producer_id: (offset, epoch) for producer_id, offset, epoch in producers}
        self.records = 0
        self.kept = 0

    def take_aborted(self) -> list[AbortedTransaction]:
        """Return the aborted transactions whose markers were kept since the last call."""
        kept, self._transactions.kept = self._transactions.kept, []
        return kept

    def filter(self, chunk: Chunk, *, keep_last: bool) -> Iterator[memoryview]:
        """Yield the remainder of a chunk, in pieces to be written in order."""
        data, last = chunk.data, chunk.rows[-1]
        for rows, is_compressed in runs(chunk.rows):
            modes = bytes(self._mode(data, row, keep_last and row is last) for row in rows)
            if not is_compressed:
                filtered = self._walk.filter(data, rows, modes, self._rules)
                for at, size in filtered.changed:
                    CRC.pack_into(
                        filtered.data, at + CRC_AT, crc32c(filtered.data[at + CRC_START : at + size])
                    )
                self.records += filtered.records
                self.kept += filtered.kept
                if len(filtered.data):
                    yield filtered.data
            else:
                yield from self._filter_compressed(data, rows[0], modes)

    def _filter_compressed(self, data: memoryview, row: Row, modes: bytes) -> Iterator[memoryview]:
        if modes[0] & DROP_RECORDS and not modes[0] & KEEP_EMPTY:
            return
        plain, plain_row = decompressed(data, row)
        filtered = self._walk.filter(plain, [plain_row], modes, self._rules)
        self.records += filtered.records
        self.kept += filtered.kept
        if not len(filtered.data):
            return
        if not filtered.changed:
            yield data[row[POSITION] : row[POSITION] + row[SIZE]]
            return
        batch = bytearray(filtered.data[:BATCH_OVERHEAD])
        codec = header_at(batch).attributes & CODEC_MASK
        body = filtered.data[BATCH_OVERHEAD:]
        batch += compress(codec, bytes(body)) if codec else body
        _LENGTH.pack_into(batch, LENGTH_AT, len(batch) - LOG_OVERHEAD)
        CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
        yield memoryview(batch)

    def _mode(self, data: memoryview, row: Row, keep_last: bool) -> int:
        attributes, producer_id = row[ATTRIBUTES], row[PRODUCER_ID]
        mode = KEEP_EMPTY if keep_last else TAKE
        if producer_id < 0:
            return mode
        known = self._producers.get(producer_id)
        if attributes & CONTROL_FLAG:
            mode |= CONTROL
            if known is not None and known[0] < 0 and known[1] == row[PRODUCER_EPOCH]:
                mode |= KEEP_EMPTY  # no other batch tells which epoch fences the older ones
            if self._transactions.marker_is_spent(producer_id, row[LAST_OFFSET], marker_key(data, row)):
                horizon = header_at(data, row[POSITION]).base_timestamp
                if attributes & DELETE_HORIZON_FLAG and horizon <= self._rules.now_ms:
                    mode |= DROP_RECORDS
                mode |= SET_HORIZON
            return mode
        if known is not None and known[0] == row[LAST_OFFSET]:
            mode |= KEEP_EMPTY  # holds the last sequence number of a producer that may come back
        if attributes & TRANSACTIONAL_FLAG and self._transactions.is_aborted(producer_id, row[LAST_OFFSET]):
            mode |= DROP_RECORDS
        return mode


def marker_key(data: memoryview, row: Row) -> bytes | None:
    """Return the key of a control batch's record, or None for an empty batch."""
    records = read_batch(data, row[POSITION])
    return (records[0].key or b"") if records else None


def runs(rows: Sequence[Row]) -> Iterator[tuple[Sequence[Row], bool]]:
    """Yield runs of uncompressed neighbours, and compressed batches singly, with a flag for the latter."""
    start = 0
    for at, row in enumerate(rows):
        if row[ATTRIBUTES] & CODEC_MASK and row[RECORDS]:
            if at > start:
                yield rows[start:at], False
            yield rows[at : at + 1], True
            start = at + 1
    if start < len(rows):
        yield rows[start:], False


def decompressed(data: memoryview, row: Row) -> tuple[memoryview, Row]:
    """Return the batch uncompressed, apart from the codec in its attributes, and its row."""
    start, size = row[POSITION], row[SIZE]
    body = decompress(row[ATTRIBUTES] & CODEC_MASK, data[start + BATCH_OVERHEAD : start + size])
    batch = bytes(data[start : start + BATCH_OVERHEAD]) + body
    return memoryview(batch), (0, len(batch), *row[2:])
