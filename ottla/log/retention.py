"""Segments by time: the rule of retention, and lookups by timestamp."""

from __future__ import annotations

from ottla.log.batch import is_dense, read_batch_bytes
from ottla.log.config import CorruptSegmentError, LogConfig
from ottla.log.segments.partition_segments import LogSegments
from ottla.log.segments.segment import LogSegment
from ottla.protocol.batch_header import CONTROL_FLAG, DELETE_HORIZON_FLAG, BatchHeader
from ottla.protocol.records import check_crc, first_at_or_after, read_batch

# Find segments that have outlived their topic's retention; `PartitionLog.delete_old_segments` deletes them.


def deletable_segments(
    segments: LogSegments,
    config: LogConfig,
    log_start_offset: int,
    now_ms: int,
    upto: int,
    copied_upto: int,
) -> int:
    """Return the number of deletable segments, starting with the oldest. If all are, the active one is rolled first.

    Segments that reach `upto` stay, because not every in-sync replica has them. If the log is copied to remote storage,
    segments that reach `copied_upto` stay, too.
    """
    copies = config.copies_segments
    kept_ms, kept_bytes = config.kept_locally_ms, config.kept_locally_bytes
    excess = segments.size - kept_bytes
    count = 0
    for at, segment in enumerate(segments):
        is_active = at + 1 == len(segments)
        if not is_active and segments[at + 1].base_offset > upto:
            break
        below_start = not is_active and segments[at + 1].base_offset <= log_start_offset
        too_large = config.deletes and kept_bytes >= 0 and excess >= segment.size and not is_active
        too_old = (
            config.deletes
            and kept_ms >= 0
            and segment.size > 0
            and now_ms - segment.largest_timestamp() > kept_ms
        )
        if copies and not is_active and segments[at + 1].base_offset > copied_upto:
            too_large = too_old = False
        if not (below_start or too_large or too_old):
            break
        excess -= segment.size
        count += 1
    return count


# Find offsets by timestamp. Decodes only the records of the batch that holds the answer.

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
