"""Read a partition's committed batches over the wire, and decide whether they count."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.fetch import FetchOptions, PartitionFetcher
from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED, list_offsets
from ottla.protocol.batch_header import (
    CONTROL_FLAG,
    LEAST_LENGTH,
    LENGTH_AT,
    LOG_OVERHEAD,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    read_header,
)
from ottla.protocol.record_format import Record
from ottla.protocol.records import ABORT, read_batch

_MOST_EMPTY_FETCHES = 25


class CommittedBatch(NamedTuple):
    """A batch. Its bytes are valid until the next one is read."""

    counts: bool  # False for control batches and aborted transactions
    header: BatchHeader
    buffer: Any
    position: int  # position in the buffer
    first: int  # offsets that count: a batch may start before the requested offset
    end: int

    @property
    def is_whole(self) -> bool:
        return self.first <= self.header.base_offset and self.header.next_offset <= self.end

    def records(self) -> list[Record]:
        if not self.counts:
            return []
        records = read_batch(self.buffer, self.position)
        if self.is_whole:
            return records
        return [each for each in records if self.first <= each.offset < self.end]


def committed_batches(
    cluster: Cluster, partition: TopicPartition, start: int | None, end: int | None = None
) -> Iterator[CommittedBatch]:
    """Yield batches from an offset, or the earliest, to the current end; fewer if the log is truncated.

    Raises ClientError.
    """
    if end is None:
        [last] = list_offsets(cluster, {partition: LATEST}, READ_COMMITTED).values()
        end = last.offset
    if start is not None and start >= end:
        return
    [begin] = list_offsets(cluster, {partition: EARLIEST}).values()
    offset = begin.offset if start is None else max(start, begin.offset)
    first = offset
    options = FetchOptions(isolation_level=READ_COMMITTED, max_wait_ms=200)
    fetcher = PartitionFetcher(cluster, partition, options)
    aborted = _Aborted()
    try:
        empty = 0
        while offset < end and empty < _MOST_EMPTY_FETCHES:
            asked = offset
            fetched = cluster.retrying(partial(fetcher.fetch, asked), [partition.topic])
            aborted.begin(fetched.aborted)
            for header, position in batches(fetched.records):
                counts = not aborted.takes(header, fetched.records, position)
                if header.next_offset > first:
                    yield CommittedBatch(counts, header, fetched.records, position, first, end)
                offset = max(offset, header.next_offset)
                if offset >= end:
                    break
            empty = empty + 1 if offset == asked else 0
    finally:
        fetcher.close()


def batches(buffer: Any) -> Iterator[tuple[BatchHeader, int]]:
    """Yield header and position of every complete batch. An incomplete last batch is skipped."""
    position = 0
    while position + LOG_OVERHEAD <= len(buffer):
        length = int.from_bytes(buffer[position + LENGTH_AT : position + LOG_OVERHEAD], "big", signed=True)
        if position + LOG_OVERHEAD + max(length, LEAST_LENGTH[0]) > len(buffer):
            return
        header = read_header(buffer, position)
        yield header, position
        position += header.size


class _Aborted:
    """Producers with an aborted current transaction, while reading batches in order."""

    def __init__(self) -> None:
        self._producers: set[int] = set()
        self._beginnings: list[tuple[int, int]] = []

    def begin(self, transactions: list[tuple[int, int]]) -> None:
        """Add producer ids and first offsets from a fetch response."""
        self._beginnings = sorted(transactions, key=lambda each: each[1])

    def takes(self, header: BatchHeader, buffer: Any, position: int) -> bool:
        while self._beginnings and self._beginnings[0][1] <= header.last_offset:
            self._producers.add(self._beginnings.pop(0)[0])
        if header.attributes & CONTROL_FLAG:
            for marker in read_batch(buffer, position):
                if int.from_bytes((marker.key or b"")[2:4], "big") == ABORT:
                    self._producers.discard(header.producer_id)
            return True
        return bool(header.attributes & TRANSACTIONAL_FLAG) and header.producer_id in self._producers
