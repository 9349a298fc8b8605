"""Read remote segments: batches by offset, records by time, aborted transactions. Blocks; runs in threads."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from ottla.log.batch import CRC_START, fault_of, header_at
from ottla.log.remote.chunk_cache import ChunkCache
from ottla.log.remote.objects import (
    INDEXES,
    LEADER_EPOCH,
    LOG,
    MANIFEST,
    OFFSET,
    PRODUCER_SNAPSHOT,
    TIMESTAMP,
    TRANSACTION,
    RemoteSegmentError,
    decode_leader_epochs,
    object_key,
    parse_manifest,
    uuid_text,
)
from ottla.log.remote.segment_metadata import RemoteLogSegment
from ottla.log.remote.storage import RemoteStorage
from ottla.log.retention import TimestampOffset
from ottla.log.segments.index import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    TRANSACTION_ENTRY_SIZE,
    AbortedTransaction,
)
from ottla.protocol.batch_header import BATCH_OVERHEAD, BatchHeader
from ottla.protocol.records import read_batch

_MANIFEST_MAX = 16 * 1024 * 1024
_WHOLE = 2**31
_WINDOW_BYTES = 256 * 1024
_TRANSACTION_ENTRY = Struct(">hqqqq")


class RemoteBatches(NamedTuple):
    """Batches of a segment; the last one may be incomplete."""

    data: bytes
    next_offset: int  # after the last complete batch, or after the incomplete one
    end_position: int


class SegmentReader:
    """Reads through a cache of chunks and calls `prefetch` with a task that loads the next one."""

    def __init__(
        self,
        storage: RemoteStorage,
        cache: ChunkCache,
        chunk_bytes: int,
        prefetch: Callable[[Callable[[], object]], object] = lambda task: None,
    ) -> None:
        self._storage = storage
        self._cache = cache
        self._chunk_bytes = chunk_bytes
        self._prefetch = prefetch

    def read(
        self, segment: RemoteLogSegment, offset: int, max_bytes: int, limit: int | None = None
    ) -> RemoteBatches | None:
        """Return the batches from the one with `offset` on: at most `max_bytes`, but at least one, below `limit`.

        None if the segment has no batch at or after `offset`. Raises RemoteStorageError or RemoteSegmentError.
        """
        found = self._locate(segment, offset)
        if found is None or (limit is not None and found[1].last_offset >= limit):
            return None
        position, first = found
        size = min(max(max_bytes, first.size), segment.size - position)
        data = self._bytes(segment, position, size)
        end, following = self._check(segment, position, data, limit)
        return RemoteBatches(data[:end], following, position + end)

    def _locate(self, segment: RemoteLogSegment, offset: int) -> tuple[int, BatchHeader] | None:
        for position, header in self._headers(segment, self._position(segment, offset)):
            if header.last_offset >= offset:
                return position, header
        return None

    def _position(self, segment: RemoteLogSegment, offset: int) -> int:
        """Look an offset up in the offset index."""
        index = self._index(segment, OFFSET)
        relative = offset - segment.start_offset

        def offset_of(at: int) -> int:
            return int.from_bytes(index[at * OFFSET_ENTRY_SIZE : at * OFFSET_ENTRY_SIZE + 4], "big")

        entries = range(len(index) // OFFSET_ENTRY_SIZE)
        at = bisect_right(entries, relative, key=offset_of) - 1
        if at < 0:
            return 0
        return int.from_bytes(index[at * OFFSET_ENTRY_SIZE + 4 : (at + 1) * OFFSET_ENTRY_SIZE], "big")

    def _headers(self, segment: RemoteLogSegment, position: int) -> Iterator[tuple[int, BatchHeader]]:
        window, start = b"", position
        while position < segment.size:
            at = position - start
            if at + BATCH_OVERHEAD > len(window):
                rest_of_chunk = self._chunk_bytes - position % self._chunk_bytes
                wanted = max(BATCH_OVERHEAD, min(_WINDOW_BYTES, rest_of_chunk))
                window = self._bytes(segment, position, min(wanted, segment.size - position))
                start, at = position, 0
            head = window[at : at + BATCH_OVERHEAD]
            header = header_at(head) if len(head) == BATCH_OVERHEAD else None
            fault = "the batch header is cut short" if header is None else fault_of(header)
            if header is not None and fault is None and position + header.size > segment.size:
                fault = "the batch is cut short"
            if header is None or fault is not None:
                raise RemoteSegmentError(f"{object_key(segment, LOG)} is damaged at byte {position}: {fault}")
            yield position, header
            position += header.size

    def _check(
        self, segment: RemoteLogSegment, position: int, data: bytes, limit: int | None
    ) -> tuple[int, int]:
        """Verify the complete batches. Return the size of the valid part and the offset behind it."""
        view, at, following = memoryview(data), 0, segment.start_offset
        while at + BATCH_OVERHEAD <= len(view):
            header = header_at(view, at)
            end = at + header.size
            fault = fault_of(header)
            if fault is None and limit is not None and header.last_offset >= limit:
                return at, following
            if fault is None and end <= len(view) and crc32c(view[at + CRC_START : end]) != header.crc:
                fault = "the checksum does not match"
            if fault is not None:
                for number in range(position // self._chunk_bytes, (position + at) // self._chunk_bytes + 2):
                    self._cache.forget(self._chunk_name(segment, number))
                if at:
                    return at, following
                raise RemoteSegmentError(f"{object_key(segment, LOG)} is damaged at byte {position}: {fault}")
            following = header.last_offset + 1
            at = end
        return len(data), following

    # Lookups

    def offset_for_timestamp(
        self, segment: RemoteLogSegment, timestamp: int, start_offset: int, limit: int
    ) -> TimestampOffset | None:
        """Return offset, timestamp and leader epoch of the first record at or after both arguments, below `limit`."""
        from_offset = max(start_offset, self._offset_before(segment, timestamp))
        found = self._locate(segment, from_offset)
        if found is None:
            return None
        for position, header in self._headers(segment, found[0]):
            if header.base_offset >= limit:
                return None
            if header.max_timestamp < timestamp:
                continue
            batch = self._bytes(segment, position, header.size)
            if crc32c(memoryview(batch)[CRC_START:]) != header.crc:
                raise RemoteSegmentError(
                    f"{object_key(segment, LOG)} is damaged at byte {position}: the checksum does not match"
                )
            for record in read_batch(batch):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    at = record.offset, record.timestamp, header.partition_leader_epoch
                    return at if record.offset < limit else None
        return None

    def _offset_before(self, segment: RemoteLogSegment, timestamp: int) -> int:
        """Look a time up in the time index: no earlier record has `timestamp` or a later one."""
        index = self._index(segment, TIMESTAMP)

        def timestamp_of(at: int) -> int:
            return int.from_bytes(index[at * TIME_ENTRY_SIZE : at * TIME_ENTRY_SIZE + 8], "big", signed=True)

        at = bisect_left(range(len(index) // TIME_ENTRY_SIZE), timestamp, key=timestamp_of) - 1
        if at < 0:
            return segment.start_offset
        relative = index[at * TIME_ENTRY_SIZE + 8 : (at + 1) * TIME_ENTRY_SIZE]
        return segment.start_offset + int.from_bytes(relative, "big")

    def aborted_transactions(self, segment: RemoteLogSegment) -> list[AbortedTransaction]:
        if not segment.has_transaction_index:
            return []
        index = self._index(segment, TRANSACTION)
        whole = len(index) - len(index) % TRANSACTION_ENTRY_SIZE
        return [AbortedTransaction(*fields[1:]) for fields in _TRANSACTION_ENTRY.iter_unpack(index[:whole])]

    def producer_snapshot(self, segment: RemoteLogSegment) -> bytes:
        return self._index(segment, PRODUCER_SNAPSHOT)

    def leader_epochs(self, segment: RemoteLogSegment) -> list[tuple[int, int]]:
        try:
            return decode_leader_epochs(self._index(segment, LEADER_EPOCH))
        except ValueError as error:
            raise RemoteSegmentError(f"{object_key(segment, INDEXES)} is damaged: {error}") from None

    # Objects

    def _index(self, segment: RemoteLogSegment, name: str) -> bytes:
        key = object_key(segment, MANIFEST)
        named = uuid_text(segment.id)
        manifest = parse_manifest(
            self._cache.get(f"{named}.{MANIFEST}", lambda: self._storage.get(key, 0, _MANIFEST_MAX)), key
        )
        place = manifest.indexes.get(name)
        if place is None:
            return b""
        packed = self._cache.get(
            f"{named}.{INDEXES}", lambda: self._storage.get(object_key(segment, INDEXES), 0, _WHOLE)
        )
        index = packed[place.position : place.position + place.size]
        if len(index) < place.size:
            self._cache.forget(f"{named}.{INDEXES}")
            raise RemoteSegmentError(f"{object_key(segment, INDEXES)} is cut short")
        return index

    def _bytes(self, segment: RemoteLogSegment, position: int, size: int) -> bytes:
        end, parts = position + size, []
        chunk_bytes = self._chunk_bytes
        for number in range(position // chunk_bytes, (max(end, position + 1) - 1) // chunk_bytes + 1):
            chunk = self._chunk(segment, number)
            start = number * chunk_bytes
            parts.append(chunk[max(0, position - start) : end - start])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _chunk_name(self, segment: RemoteLogSegment, number: int) -> str:
        return f"{uuid_text(segment.id)}.{LOG}.{number}"

    def _chunk(self, segment: RemoteLogSegment, number: int) -> bytes:
        chunk_bytes = self._chunk_bytes
        expected = min(chunk_bytes, segment.size - number * chunk_bytes)
        name = self._chunk_name(segment, number)

        def load() -> bytes:
            data = self._storage.get(object_key(segment, LOG), number * chunk_bytes, expected)
            if len(data) != expected:
                raise RemoteSegmentError(f"{object_key(segment, LOG)} is shorter than {segment.size} bytes")
            return data

        following = number + 1
        if (
            name not in self._cache
            and following * chunk_bytes < segment.size
            and self._chunk_name(segment, following) not in self._cache
        ):
            # Most readers go on: the next chunk is loaded while they process this one.
            self._prefetch(lambda: self._prefetched(segment, following))
        return self._cache.get(name, load)

    def _prefetched(self, segment: RemoteLogSegment, number: int) -> None:
        name, chunk_bytes = self._chunk_name(segment, number), self._chunk_bytes
        size = min(chunk_bytes, segment.size - number * chunk_bytes)
        self._cache.get(name, lambda: self._storage.get(object_key(segment, LOG), number * chunk_bytes, size))
