"""What can be asked of a partition's log without changing it."""

from __future__ import annotations

import logging
from pathlib import Path

from ottla.log import time_lookup
from ottla.log.batch import BatchHeader
from ottla.log.errors import CorruptSegmentError, storage_error
from ottla.log.files.file_region import EMPTY_REGION, FileRegion
from ottla.log.producer_state import ProducerDescription
from ottla.log.recovery import LoadedLog
from ottla.log.segments.segment import LogSegment
from ottla.log.segments.segments import LogSegments
from ottla.log.segments.transaction_index import AbortedTransaction
from ottla.log.time_lookup import TimestampOffset
from ottla.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)


class ReadableLog:
    """The state of a log, and reading it. PartitionLog, which is one, says who may change what.

    Owner: the event loop; the lookups by time may run in a thread.
    """

    def __init__(self, path: str, topic: str, partition: int, topic_id: bytes, loaded: LoadedLog) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.path = Path(path)
        self.segments = LogSegments(loaded.segments)
        self.active = loaded.segments[-1]
        self.producers = loaded.producers
        self.epochs = loaded.epochs
        self._latest_epoch = loaded.epochs.latest
        self.log_start_offset = loaded.log_start_offset
        self.noted_start_offset = loaded.log_start_offset  # as the checkpoint on disk has it
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self.first_dirty_offset = 0  # what lies below it has been compacted
        self.truncations = 0
        self.offline_reason: str | None = None
        self._closed = False
        # Base offset -> position of the last batches of the active segment: what tail reads ask for.
        self._recent: dict[int, int] = {}

    @property
    def durable_start_offset(self) -> int:
        """Where the log would start after a crash: what lies before it cannot come back."""
        return min(self.log_start_offset, max(self.segments.base_offset, self.noted_start_offset))

    @property
    def size(self) -> int:
        return self.segments.size

    def describe_producers(self) -> list[ProducerDescription]:
        return self.producers.describe()

    def reads_tail(self, offset: int) -> bool:
        """Whether a read from `offset` on needs nothing but what was written a moment ago, if anything."""
        return offset in self._recent or offset >= self.log_end_offset or offset < self.log_start_offset

    def read(self, offset: int, max_bytes: int, *, upto: int, min_one: bool) -> FileRegion:
        """The bytes from the batch with `offset` on, of one segment and below the offset `upto`.

        At most `max_bytes`, but with `min_one` at least the first batch. Empty if there is nothing yet.
        """
        end_offset = self.log_end_offset
        if offset < self.log_start_offset or offset > end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not between {self.log_start_offset} and {end_offset}",
            )
        if upto > end_offset:
            upto = end_offset
        if offset >= upto:
            return EMPTY_REGION
        position = self._recent.get(offset)
        if position is not None and upto == end_offset:
            active = self.active
            size = active.size - position
            if size <= max_bytes:
                return FileRegion(active.file or active.open_file(), position, size)
        self._check_open()
        try:
            for segment in self.segments.at_or_after(offset):
                found = segment.locate(offset)
                if found is not None:
                    return self._region(segment, found.position, found.header, max_bytes, upto, min_one)
        except CorruptSegmentError as error:
            logger.error("%s", error)
            raise
        except OSError as error:
            raise storage_error(f"cannot read {self.path}", error) from error
        return EMPTY_REGION

    def _region(
        self, segment: LogSegment, position: int, first: BatchHeader, max_bytes: int, upto: int, min_one: bool
    ) -> FileRegion:
        if first.last_offset >= upto:
            if position < segment.unverified_end:
                # It may be committed, and its offset damaged: the batch behind it tells.
                self._require_good(segment, position, position + first.size)
            return EMPTY_REGION
        end = segment.size
        if upto < (self.log_end_offset if segment is self.active else self.segments.end_of(segment)):
            bound = segment.locate(upto)
            end = segment.size if bound is None else bound.position
        size = min(max_bytes, end - position)
        if size < first.size:
            if not min_one:
                return EMPTY_REGION
            size = first.size
        if position < segment.unverified_end:
            size = self._require_good(segment, position, position + size) - position
        return FileRegion(segment.open_file(), position, size)

    @staticmethod
    def _require_good(segment: LogSegment, position: int, end: int) -> int:
        """Where the good part ends; the first batch must be good."""
        reached = segment.verify(position, end)
        if reached == position:
            raise CorruptSegmentError(
                segment.path, position, "the checksum does not match, or the batch behind it does not follow"
            )
        return reached

    def aborted_transactions(self, offset: int, region: FileRegion) -> list[AbortedTransaction]:
        """The aborted transactions with records in a region that was read from `offset` on."""
        found: list[AbortedTransaction] = []
        upto = -1
        for segment in self.segments.at_or_after(offset):
            if upto < 0 and region.file is not None and region.file.path == segment.path:
                end = self.log_end_offset if segment is self.active else self.segments.end_of(segment)
                upto = segment.offset_after(region.position + region.size, end)
            if upto >= 0 and segment.transaction_index.collect(offset, upto, found):
                break
        return found

    def _check_open(self) -> None:
        if self._closed:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline_reason)

    def offset_for_timestamp(self, timestamp: int, upto: int) -> TimestampOffset | None:
        """Offset, timestamp and leader epoch of the first record not older than `timestamp`, below `upto`."""
        self._check_open()
        return time_lookup.offset_for_timestamp(self.segments, self.log_start_offset, timestamp, upto)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """Offset, timestamp and leader epoch of the first record with the largest timestamp."""
        self._check_open()
        return time_lookup.max_timestamp_offset(self.segments, self.log_start_offset)

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """The largest known epoch not above `leader_epoch` and where it ended; (-1, -1) if not known."""
        return self.epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch that `offset` was (or will be) written in, -1 if not known."""
        return self.epochs.epoch_of(offset)
