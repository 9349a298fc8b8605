"""From a directory to the state of a log: what every start does, and what an unclean stop adds to it."""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from crc32c import crc32c

from ottla.log.batch import CRC_START, BatchScan, Invalid, header_at, order_fault, read_batch_bytes
from ottla.log.config import LONG_MAX, LogConfig
from ottla.log.errors import CorruptSegmentError
from ottla.log.files.checkpoint import CheckpointError
from ottla.log.leader_epoch import LeaderEpochCache
from ottla.log.producer_state import REMEMBERED_BATCHES, SNAPSHOT_SUFFIX, ProducerStates
from ottla.log.segments.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    RELATIVE_OFFSET_MAX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    LogSegment,
    segment_path,
)
from ottla.log.segments.swap import complete_swaps
from ottla.protocol.batch_header import (
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    check_crc,
    read_header,
)
from ottla.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

_LEFTOVERS = (DELETED_SUFFIX, ".tmp")
_MAGIC_AT = 16
_SEARCH_BYTES = 1 << 20
_OLD_MESSAGE_MAX = 1 << 24


@dataclass(slots=True)
class LoadedLog:
    segments: list[LogSegment]
    producers: ProducerStates
    epochs: LeaderEpochCache
    log_start_offset: int
    log_end_offset: int
    recovery_point: int


@dataclass(slots=True)
class _Files:
    logs: list[int] = field(default_factory=list)
    indexed: dict[int, int] = field(default_factory=dict)
    transactions: list[int] = field(default_factory=list)
    snapshots: list[int] = field(default_factory=list)


def _list_files(directory: str) -> _Files:
    files = _Files()
    names = os.listdir(directory)
    if complete_swaps(directory, names):
        names = os.listdir(directory)
    for name in names:
        stem, suffix = os.path.splitext(name)
        if suffix in _LEFTOVERS:
            os.unlink(f"{directory}/{name}")
        elif not stem.isdecimal():
            continue
        elif suffix == LOG_SUFFIX:
            files.logs.append(int(stem))
        elif suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            files.indexed[int(stem)] = files.indexed.get(int(stem), 0) + 1
        elif suffix == SNAPSHOT_SUFFIX:
            files.snapshots.append(int(stem))
        elif suffix == TRANSACTION_INDEX_SUFFIX:
            files.transactions.append(int(stem))
    files.logs.sort()
    for base in (files.indexed.keys() | set(files.transactions)) - set(files.logs):
        # Their segment was being deleted.
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
            with suppress(FileNotFoundError):
                os.unlink(segment_path(directory, base, suffix))
    return files


def load_log(
    directory: str, config: LogConfig, *, log_start_offset: int, recovery_point: int, clean_shutdown: bool
) -> LoadedLog:
    """Open what is there. After an unclean stop everything from the recovery point on is read and checked."""
    files = _list_files(directory)
    producers = ProducerStates(directory, files.snapshots)
    epochs = LeaderEpochCache(directory)
    try:
        epochs.load()
    except CheckpointError as error:
        logger.warning("%s; the epochs are read from the batches instead", error)
        clean_shutdown, recovery_point = False, 0
    if not files.logs:
        segment = LogSegment(directory, log_start_offset, config)
        segment.create_files()
        producers.remove_snapshots_after(-1)
        epochs.truncate_from_end(log_start_offset)
        return LoadedLog([segment], producers, epochs, log_start_offset, log_start_offset, log_start_offset)

    segments = [_open_segment(directory, base, config) for base in files.logs]
    # A log that went offline before a clean shutdown was not closed: its recovery point shows it.
    clean_shutdown = clean_shutdown and recovery_point >= _end_offset(segments[-1])
    recover_from = len(segments)
    if not clean_shutdown:
        recover_from = max(0, bisect_right(files.logs, recovery_point) - 1)
    recover_from = min(recover_from, _first_bad_transaction_index(segments, files.transactions))
    for at, segment in enumerate(segments[:recover_from]):
        if segment.size and files.indexed.get(segment.base_offset) != 2:
            logger.warning("an index of %s is missing and is built again", segment.path)
            _rebuild_indexes(segment, segments[at + 1] if at + 1 < len(segments) else None)

    if recover_from < len(segments):
        log_end_offset = _recover(segments, recover_from, producers, epochs)
    else:
        log_end_offset = segments[-1].refresh_tail()
        _replay(producers, segments, log_end_offset)
    _restore_recent_batches(producers, segments)
    producers.remove_snapshots_after(log_end_offset)
    epochs.truncate_from_end(log_end_offset + 1)
    return LoadedLog(
        segments,
        producers,
        epochs,
        max(log_start_offset, segments[0].base_offset),
        log_end_offset,
        log_end_offset if clean_shutdown else min(recovery_point, log_end_offset),
    )


def _first_bad_transaction_index(segments: list[LogSegment], present: list[int]) -> int:
    """From which segment on the log must be read again to know which transactions were aborted."""
    for at, segment in enumerate(segments):
        if segment.base_offset in present:
            end = segments[at + 1].base_offset if at + 1 < len(segments) else LONG_MAX
            fault = segment.transaction_index.fault(segment.base_offset, end)
            if fault is not None:
                logger.warning("%s is built again: %s", segment.transaction_index.path, fault)
                return at
    return len(segments)


def _open_segment(directory: str, base_offset: int, config: LogConfig) -> LogSegment:
    segment = LogSegment(directory, base_offset, config)
    status = os.stat(segment.path)
    segment.size = segment.unverified_end = status.st_size
    segment.created_ms = int(status.st_mtime * 1000)
    return segment


def _end_offset(segment: LogSegment) -> int:
    try:
        return segment.refresh_tail()
    except CorruptSegmentError as error:
        logger.warning("%s; its indexes are built again to see whether they are to blame", error)
    _rebuild_indexes(segment, None)
    return segment.refresh_tail()


def _rebuild_indexes(segment: LogSegment, following: LogSegment | None) -> None:
    """Nothing may be cut here: this segment was complete when the broker last knew it."""
    invalid, end_offset = _scan(segment, segment.base_offset, None, None)
    if invalid is not None:
        raise CorruptSegmentError(segment.path, invalid.position, invalid.reason)
    if following is not None and end_offset > following.base_offset:
        raise CorruptSegmentError(segment.path, segment.size, f"it reaches into {following.path}")


def _scan(
    segment: LogSegment, next_offset: int, producers: ProducerStates | None, epochs: LeaderEpochCache | None
) -> tuple[Invalid | None, int]:
    """Check every batch and build the indexes anew; where the valid part stopped, and its end offset."""
    segment.offset_index.start_empty()
    segment.time_index.start_empty()
    if producers is not None:
        segment.transaction_index.start_empty()
    segment.max_timestamp, segment.offset_of_max_timestamp = -1, segment.base_offset
    segment.bytes_since_index = 0
    invalid: Invalid | None = None
    file = segment.open_file()
    scan = BatchScan(file.fd, 0, segment.size, check_crc=True)
    before: tuple[int, BatchHeader] | None = None
    for position, header in scan:
        # That the offset or the epoch of a batch is wrong shows in the whole one behind it.
        if before is not None and (fault := order_fault(before[1], header)) is not None:
            raise CorruptSegmentError(segment.path, before[0], f"in this batch or the next one, {fault}")
        before = (position, header)
        if not next_offset <= header.base_offset <= segment.max_offset - header.last_offset_delta:
            invalid = Invalid(position, f"offset {header.base_offset} follows {next_offset - 1}")
            break
        segment.note(header, position)
        if epochs is not None:
            epochs.assign(header.partition_leader_epoch, header.base_offset)
        if producers is not None:
            completed = producers.replay(header, partial(read_batch_bytes, file.fd, position, header))
            if completed is not None and completed.aborted:
                segment.transaction_index.append(producers.aborted(completed))
        next_offset = header.last_offset + 1
    invalid = invalid or scan.invalid
    segment.time_index.maybe_append(segment.max_timestamp, segment.offset_of_max_timestamp)
    segment.offset_index.rewrite()
    segment.time_index.rewrite()
    segment.unverified_end = 0 if invalid is None else segment.size
    return invalid, next_offset


def _recover(
    segments: list[LogSegment], first: int, producers: ProducerStates, epochs: LeaderEpochCache
) -> int:
    """Scan from segment `first` to the end; cut a torn tail, refuse anything worse. The log end offset."""
    start_offset = segments[first].base_offset
    _replay(producers, segments, start_offset)
    next_offset = start_offset
    for at in range(first, len(segments)):
        segment = segments[at]
        next_offset = max(next_offset, segment.base_offset)
        invalid, next_offset = _scan(segment, next_offset, producers, epochs)
        if invalid is not None:
            _require_torn_tail(segment, invalid, next_offset, segments[at + 1 :])
            _cut_tail(segment, invalid)
            for empty in segments[at + 1 :]:
                empty.rename_deleted()
            del segments[at + 1 :]
            break
    epochs.write()
    return next_offset


def _require_torn_tail(
    segment: LogSegment, invalid: Invalid, next_offset: int, later: list[LogSegment]
) -> None:
    """What was being written when the process died may be cut off. What lies before valid data may not."""
    fd = segment.open_file().fd
    if _is_old_message(os.pread(fd, _OLD_MESSAGE_MAX, invalid.position)):
        raise CorruptSegmentError(
            segment.path,
            invalid.position,
            "it has a message format from before Kafka 0.11, which is not read",
        )
    for other in later:
        if other.size:
            raise CorruptSegmentError(
                segment.path, invalid.position, f"{invalid.reason}, and {other.path} follows"
            )
    valid = find_batch(fd, invalid.position + 1, segment.size, next_offset)
    if valid is not None:
        raise CorruptSegmentError(
            segment.path, invalid.position, f"{invalid.reason}, and a valid batch follows at byte {valid}"
        )


def _is_old_message(data: bytes) -> bool:
    """Whether this is a message of a format that Kafka wrote before 0.11: not served, but not damage either."""
    try:
        header = read_header(data)
    except KafkaError:
        return False
    return header.magic < MAGIC and check_crc(data, 0, header)


def _cut_tail(segment: LogSegment, invalid: Invalid) -> None:
    logger.warning(
        "%s: cut %d bytes from byte %d on, the end of an append that was never finished (%s)",
        segment.path,
        segment.size - invalid.position,
        invalid.position,
        invalid.reason,
    )
    os.truncate(segment.path, invalid.position)
    segment.size = invalid.position
    segment.unverified_end = 0


def find_batch(fd: int, start: int, end: int, next_offset: int) -> int | None:
    """The position of a batch at or behind `start` that is whole, has its checksum and continues the log.

    Its offset must be above `next_offset`, which the damaged batch itself would have had: so a batch that a
    user stored as a value, as its producer made it, is not mistaken for one.
    """
    magic = bytes([MAGIC])
    while start + BATCH_OVERHEAD <= end:
        chunk = os.pread(fd, min(_SEARCH_BYTES, end - start), start)
        at = chunk.find(magic, _MAGIC_AT)
        while at >= 0 and at - _MAGIC_AT + BATCH_OVERHEAD <= len(chunk):
            header = header_at(chunk, at - _MAGIC_AT)
            position = start + at - _MAGIC_AT
            if (
                next_offset < header.base_offset <= next_offset + RELATIVE_OFFSET_MAX
                and header.batch_length >= BATCH_OVERHEAD - LOG_OVERHEAD
                and header.last_offset_delta >= 0
                and position + header.size <= end
                and crc32c(os.pread(fd, header.size - CRC_START, position + CRC_START)) == header.crc
            ):
                return position
            at = chunk.find(magic, at + 1)
        start += max(1, len(chunk) - BATCH_OVERHEAD + 1)
    return None


def rebuild_producers(producers: ProducerStates, segments: list[LogSegment], end: int) -> None:
    """The state of the producers at offset `end`, from the last snapshot before it and the batches behind that."""
    _replay(producers, segments, end)
    _restore_recent_batches(producers, segments)


def _replay(producers: ProducerStates, segments: list[LogSegment], end: int) -> None:
    start = producers.load_latest(end, segments[0].base_offset)
    if start >= end:
        return
    bases = [segment.base_offset for segment in segments]
    for segment in segments[max(0, bisect_right(bases, start) - 1) :]:
        if segment.base_offset >= end:
            return
        found = segment.locate(start)
        if found is None:
            continue
        file = segment.open_file()
        scan = segment.batches(found.position)
        for position, header in scan:
            if header.base_offset >= end:
                return
            producers.replay(header, partial(read_batch_bytes, file.fd, position, header))
        if scan.invalid is not None:
            raise CorruptSegmentError(segment.path, scan.invalid.position, scan.invalid.reason)


def _restore_recent_batches(producers: ProducerStates, segments: list[LogSegment]) -> None:
    """Read back the last few batches before those a snapshot knows.

    A snapshot keeps one batch per producer. A producer that had five requests in flight when the broker
    stopped sends all five again, and each has to be recognised.
    """
    if not producers.producers or all(
        len(entry.batches) == REMEMBERED_BATCHES for entry in producers.producers.values()
    ):
        return
    headers: list[BatchHeader] = []
    for segment in segments[-2:]:
        if segment.size:
            entries = segment.offset_index.positions_from_end(4 * REMEMBERED_BATCHES)
            headers += [header for _, header in segment.batches(entries[0] if entries else 0)]
            if segment is not segments[-1]:
                segment.release()
    for header in reversed(headers):
        if header.producer_id >= 0:
            producers.remember_older(header)
