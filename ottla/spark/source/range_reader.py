"""Reader of an offset range on an executor, robust to leader changes and lost connections."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from ottla.client.cluster import Cluster, shared_cluster
from ottla.client.errors import ClientError
from ottla.client.fetch import PartitionFetcher
from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED, list_offsets
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.kernels import RecordColumns, decode
from ottla.spark.source.connector_columns import BatchBuilder
from ottla.spark.source.data_loss import report
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.source_options import SourceOptions
from ottla.spark.source.typed_reader import TypedReader
from ottla.spark.workers import settle

_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})

# Seconds before missing records count as lost. A new leader may briefly not know a topic or its high watermark.
_PATIENCE = 10.0


def read_range(options: SourceOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    builder = BatchBuilder(wanted.partition)
    typed = TypedReader(options, wanted.partition) if options.typed.is_needed else None
    with shared_cluster(options.settings) as cluster:
        for columns in _RangeReader(cluster, options, wanted).columns():
            for batch in builder.batches(columns):
                yield batch if typed is None else typed.decode(batch)
    if typed is not None:
        typed.finish()
    settle()


def current_range(options: SourceOptions, planned: OffsetRange) -> OffsetRange:
    """Update a range to the current end, and if necessary the current start, of its partition.

    Spark plans a batch once, and runs it again in each micro-batch of a stream joined with it.
    """
    with shared_cluster(options.settings) as cluster:
        first, last = (
            list_offsets(cluster, {planned.partition: which}, options.isolation_level)[
                planned.partition
            ].offset
            for which in (EARLIEST, LATEST)
        )
    start = max(planned.start, first)
    return OffsetRange(planned.partition, start, max(start, last))


class _RangeReader:
    def __init__(self, cluster: Cluster, options: SourceOptions, wanted: OffsetRange) -> None:
        self._cluster = cluster
        self._options = options
        self._partition = wanted.partition
        self._offset = wanted.start
        self._end = wanted.end
        self._progress_at = time.monotonic()

    def columns(self) -> Iterator[RecordColumns]:
        fetcher = PartitionFetcher(self._cluster, self._partition, self._options.fetch)
        try:
            while self._offset < self._end:
                columns = self._next(fetcher)
                if columns is not None:
                    if self._offset < self._end:
                        fetcher.fetch_ahead(self._offset)
                    yield columns
        finally:
            fetcher.close()

    def _next(self, fetcher: PartitionFetcher) -> RecordColumns | None:
        """Return the next columns, or None if this attempt brought nothing."""
        try:
            fetched = fetcher.fetch(self._offset)
        except ClientError as error:
            self._recover(error)
            return None
        try:
            columns, next_offset = decode(
                fetched.records,
                start=self._offset,
                end=self._end,
                with_headers=self._options.fetches_headers,
                aborted=fetched.aborted if self._options.isolation_level == READ_COMMITTED else None,
            )
        except KafkaError as error:
            raise ClientError(f"Partition {self._partition} cannot be read: {error}.", error.code) from None
        if next_offset == self._offset:
            self._check_end(fetched.high_watermark)
            return None
        self._offset = next_offset
        self._progress_at = time.monotonic()
        return columns

    @property
    def _waited(self) -> float:
        return time.monotonic() - self._progress_at

    @property
    def _patience(self) -> float:
        return min(_PATIENCE, self._options.poll_timeout)

    def _recover(self, error: ClientError) -> None:
        if error.code == ErrorCode.OFFSET_OUT_OF_RANGE and self._is_out_of_range():
            return
        if error.code in _GONE and self._waited > self._patience:
            self._skip_lost(self._end, "the topic or the partition was deleted")
            return
        if error.code != ErrorCode.OFFSET_OUT_OF_RANGE and not error.is_retriable:
            raise error
        if self._waited > self._options.poll_timeout:
            raise error
        self._cluster.forget(self._partition.topic)
        time.sleep(self._cluster.settings.retry_backoff)

    def _is_out_of_range(self) -> bool:
        """Ask the leader again. Return True if it lacks the offset; lost records are then skipped."""
        self._cluster.forget(self._partition.topic)
        first = list_offsets(self._cluster, {self._partition: EARLIEST})[self._partition].offset
        last = list_offsets(self._cluster, {self._partition: LATEST})[self._partition].offset
        if self._offset < first:
            self._skip_lost(min(first, self._end), f"the partition starts at {first}")
        elif self._offset > last:
            self._skip_lost(self._end, f"the partition ends at {last}")
        else:
            return False
        return True

    def _check_end(self, high_watermark: int) -> None:
        """Keep waiting after an empty fetch, unless the partition has ended or time is up."""
        if self._offset >= high_watermark and self._waited > self._patience:
            self._skip_lost(self._end, f"the partition ends at {high_watermark}")
        elif self._waited > self._options.poll_timeout:
            raise ClientError(
                f"Partition {self._partition} returned nothing at offset {self._offset} "
                f"for {self._options.poll_timeout:g} seconds."
            )

    def _skip_lost(self, until: int, reason: str) -> None:
        report(
            f"Offsets {self._offset} to {until - 1} of {self._partition} cannot be read: {reason}",
            fail=self._options.fail_on_data_loss,
        )
        self._offset = until
        self._progress_at = time.monotonic()
