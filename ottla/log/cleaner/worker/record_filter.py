"""Which records a compaction keeps: the last of each key, transactions and chunks of a segment."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from ottla.log.batch import CRC, CRC_START, header_at
from ottla.log.cleaner.walk.walk import (
    ATTRIBUTES,
    CHECKSUM,
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
from ottla.log.config import CorruptSegmentError
from ottla.log.segments.index import AbortedTransaction
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

# Transactions during compaction: aborted data, and markers still needed.

_ABORT, _COMMIT = 0, 1
_CONTROL_KEY = Struct(">hh")


class _Aborted:
    __slots__ = ("seen", "transaction")

    def __init__(self, transaction: AbortedTransaction) -> None:
        self.transaction = transaction
        self.seen = False


class CleanedTransactions:
    """Follows transactions through one pass over the log, batch by batch.

    A marker can be dropped if the pass met no data of its transaction. Owner: one pass.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._waiting = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        self._aborted: dict[int, _Aborted] = {}
        self._committed: set[int] = set()
        self.kept: list[AbortedTransaction] = []  # for the new segment's index

    def _reach(self, offset: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0].first_offset <= offset:
            transaction = waiting.popleft()
            if transaction.last_offset >= offset:  # otherwise it ended before the start of this pass
                self._aborted.setdefault(transaction.producer_id, _Aborted(transaction))

    def is_aborted(self, producer_id: int, last_offset: int) -> bool:
        """Process a transactional batch. Return True if its records were aborted."""
        self._reach(last_offset)
        aborted = self._aborted.get(producer_id)
        if aborted is None:
            self._committed.add(producer_id)
            return False
        aborted.seen = True
        return True

    def marker_is_spent(self, producer_id: int, last_offset: int, key: bytes | None) -> bool:
        """Process a control batch (`key` is None if it was emptied). Return True if it is no longer needed."""
        self._reach(last_offset)
        if key is None:
            return True
        kind = _CONTROL_KEY.unpack_from(key)[1] if len(key) >= _CONTROL_KEY.size else -1
        if kind == _ABORT:
            aborted = self._aborted.pop(producer_id, None)
            if aborted is not None and aborted.seen:
                self.kept.append(aborted.transaction)
                return False
            return True
        if kind == _COMMIT:
            if producer_id in self._committed:
                self._committed.remove(producer_id)
                return False
            return True
        return False


# Read the batches of a segment in chunks, verifying each checksum.


class Throttle:
    """Invariant: the average over any longer period stays below `rate` bytes per second.

    `pause` waits, and may end the job by raising. Owner: one job.
    """

    def __init__(
        self,
        rate: float,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate = rate
        self._pause = pause
        self._clock = clock
        self._free_at = clock()

    def took(self, count: int) -> None:
        """Account for bytes read or written, and wait if they exceed the rate."""
        now = self._clock()
        self._free_at = max(self._free_at, now) + count / self._rate
        self._pause(max(0.0, self._free_at - now))


class Chunk(NamedTuple):
    """Complete batches, valid until the next chunk is read."""

    data: memoryview
    rows: Sequence[Row]
    is_last: bool
    position: int


class ChunkReader:
    """Buffer shared by all segments of a job. It grows to fit the largest batch. Owner: one job."""

    def __init__(self, walk: Walk, buffer_size: int, throttle: Throttle) -> None:
        self._walk = walk
        self._buffer = bytearray(max(buffer_size, 4096))
        self._throttle = throttle
        self.bytes_read = 0

    def chunks(self, path: str, size: int, position: int = 0) -> Iterator[Chunk]:
        """Yield the batches in [position, size) of a file. Raises CorruptSegmentError on anything else."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(fd, position, size - position, os.POSIX_FADV_SEQUENTIAL)
            while position < size:
                count = self._read(fd, position, size)
                view = memoryview(self._buffer)[:count]
                rows, end, fault = self._walk.scan(view)
                if fault is not None and not rows:
                    raise CorruptSegmentError(path, position, fault)
                if not rows:
                    needed = header_at(view).size if count >= BATCH_OVERHEAD else BATCH_OVERHEAD
                    has_ended = count < min(
                        len(self._buffer), size - position
                    )  # the log was truncated in the meantime
                    if has_ended or needed <= count or position + needed > size:
                        raise CorruptSegmentError(path, position, "the batch is cut short")
                    del view
                    self._buffer = bytearray(needed)
                    continue
                for row in rows:
                    at = row[POSITION]
                    if crc32c(view[at + CRC_START : at + row[SIZE]]) != row[CHECKSUM]:
                        raise CorruptSegmentError(path, position + at, "the checksum does not match")
                self.bytes_read += end
                self._throttle.took(end)
                yield Chunk(view[:end], list(rows), position + end >= size, position)
                position += end
        finally:
            os.close(fd)

    def _read(self, fd: int, position: int, size: int) -> int:
        target = memoryview(self._buffer)[: size - position]
        done = 0
        while done < len(target):
            count = os.preadv(fd, [target[done:]], position + done)
            if not count:
                break
            done += count
        return done


# The second pass by chunk: decides about batches, delegates records to the walk, and adds checksums.

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
