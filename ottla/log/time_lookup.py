"""Find offsets by timestamp. Decodes only the records of the batch that holds the answer."""

from __future__ import annotations

from ottla.log.batch import is_dense, read_batch_bytes
from ottla.log.errors import CorruptSegmentError
from ottla.log.segments.partition_segments import LogSegments
from ottla.log.segments.segment import LogSegment
from ottla.protocol.batch_header import CONTROL_FLAG, DELETE_HORIZON_FLAG, BatchHeader
from ottla.protocol.records import check_crc, first_at_or_after, read_batch

# offset, timestamp, leader epoch
TimestampOffset = tuple[int, int, int]


def offset_for_timestamp(
    segments: LogSegments, log_start_offset: int, timestamp: int, upto: int
) -> TimestampOffset | None:
    for segment in segments:
        if segment.base_offset >= upto:
            return None
        largest, _ = segment.max_timestamp_and_offset()
        if largest >= timestamp:
            found = _search(segment, log_start_offset, timestamp)
            if found is not None:
                return found if found[0] < upto else None
    return None


def _search(segment: LogSegment, start_offset: int, timestamp: int) -> TimestampOffset | None:
    start = segment.locate(max(start_offset, segment.time_index.lookup(timestamp)), repair=False)
    if start is None:
        return None
    scan = segment.batches(start.position)
    for position, header in scan:
        if header.max_timestamp >= timestamp:
            found = _first_record(segment, position, header, start_offset, timestamp)
            if found is not None:
                return found
    if scan.invalid is not None:
        raise CorruptSegmentError(segment.path, scan.invalid.position, scan.invalid.reason)
    return None


def _first_record(
    segment: LogSegment, position: int, header: BatchHeader, start_offset: int, timestamp: int
) -> TimestampOffset | None:
    epoch = header.partition_leader_epoch
    if (
        is_dense(header)
        and header.base_offset >= start_offset
        and not header.attributes & (CONTROL_FLAG | DELETE_HORIZON_FLAG)
    ):
        # The first record has the base timestamp, which is often the answer.
        first_timestamp = header.max_timestamp if header.timestamp_type else header.base_timestamp
        if first_timestamp >= timestamp:
            return header.base_offset, first_timestamp, epoch
    batch = read_batch_bytes(segment.open_file().fd, position, header)
    if not check_crc(batch, 0, header):
        raise CorruptSegmentError(segment.path, position, "the checksum does not match")
    first = first_at_or_after(batch, timestamp)
    if first is None or first[0] >= start_offset:
        return None if first is None else (*first, epoch)
    for record in read_batch(batch):  # the log starts inside this batch
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return record.offset, record.timestamp, epoch
    return None


def max_timestamp_offset(segments: LogSegments, log_start_offset: int) -> TimestampOffset | None:
    candidates = [(segment.max_timestamp_and_offset()[0], segment) for segment in segments if segment.size]
    if not candidates:
        return None
    largest = max(timestamp for timestamp, _ in candidates)
    if largest < 0:
        return None
    segment = next(segment for timestamp, segment in candidates if timestamp == largest)
    return _search(segment, log_start_offset, largest)
