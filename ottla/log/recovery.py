"""Load a log from its directory: the steps of every start, plus recovery after an unclean stop."""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from crc32c import crc32c

from ottla.log.batch import CRC_START, BatchScan, Invalid, header_at, order_fault, read_batch_bytes
from ottla.log.config import LONG_MAX, CorruptSegmentError, DamagedLogError, LogConfig
from ottla.log.files.checkpoint import LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, CheckpointError
from ottla.log.files.live_ends import LIVE_ENDS_FILE
from ottla.log.files.meta_properties import NOTHING_KNOWN, KnownLog
from ottla.log.files.segment_manifest import NO_FILE, SegmentManifest, SegmentNote
from ottla.log.leader_epoch import UNDEFINED_EPOCH, LeaderEpochCache
from ottla.log.producer_state import REMEMBERED_BATCHES, SNAPSHOT_SUFFIX, ProducerStates
from ottla.log.segments.partition_segments import complete_swaps
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


@dataclass(frozen=True, slots=True)
class FoundLog:
    """Facts about a log from checkpoints and other files, known before it is opened."""

    log_start_offset: int = 0
    # False if that file was damaged, missing, or written by Kafka: other files are consulted as well.
    is_start_certain: bool = True
    recovery_point: int = 0
    clean_shutdown: bool = False
    known: KnownLog = NOTHING_KNOWN
    read_all: bool = False  # the log had a problem: check every batch
    use_manifest: bool = True  # False if Apache Kafka has written here since
    may_be_torn: bool = True  # False if other damage makes a torn tail unlikely

    @property
    def least_end(self) -> int:
        """Minimum end offset: everything below the recovery point was on disk."""
        return max(self.recovery_point, self.known.end_offset)


NEW_LOG = FoundLog()


@dataclass(slots=True)
class LoadedLog:
    segments: list[LogSegment]
    producers: ProducerStates
    epochs: LeaderEpochCache
    manifest: SegmentManifest
    log_start_offset: int
    log_end_offset: int
    recovery_point: int


@dataclass(slots=True)
class _Files:
    logs: list[int] = field(default_factory=list)
    indexed: dict[int, int] = field(default_factory=dict)
    transactions: set[int] = field(default_factory=set)
    snapshots: list[int] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)


def _list_files(directory: str) -> _Files:
    files = _Files()
    names = os.listdir(directory)
    if complete_swaps(directory, names):
        names = os.listdir(directory)
    for name in names:
        stem, suffix = os.path.splitext(name)
        if suffix in _LEFTOVERS:
            files.leftovers.append(name)
        elif not stem.isdecimal():
            continue
        elif suffix == LOG_SUFFIX:
            files.logs.append(int(stem))
        elif suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            files.indexed[int(stem)] = files.indexed.get(int(stem), 0) + 1
        elif suffix == SNAPSHOT_SUFFIX:
            files.snapshots.append(int(stem))
        elif suffix == TRANSACTION_INDEX_SUFFIX:
            files.transactions.add(int(stem))
    files.logs.sort()
    return files


def _require_logs(directory: str, files: _Files, manifest: SegmentManifest) -> None:
    """Require the .log file of every segment in the manifest, and of every set of indexes."""
    missing = set(manifest.segments) - set(files.logs)
    if not manifest.segments and files.logs:
        orphans = (files.indexed.keys() | files.transactions) - set(files.logs)
        deleted = {name.split(".", 1)[0] for name in files.leftovers}
        missing = {base for base in orphans if base < files.logs[-1] and f"{base:020d}" not in deleted}
    if missing:
        path = segment_path(directory, min(missing), LOG_SUFFIX)
        raise DamagedLogError(path, "is missing, although the segment was not deleted")


def _remove_leftovers(directory: str, files: _Files) -> None:
    """Remove files of partly deleted segments: indexes first, while the .log identifies them."""
    orphans = (files.indexed.keys() | files.transactions) - set(files.logs)
    for base in orphans:
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
            with suppress(FileNotFoundError):
                os.unlink(segment_path(directory, base, suffix))
    for name in files.leftovers:
        with suppress(FileNotFoundError):
            os.unlink(f"{directory}/{name}")


def load_log(directory: str, config: LogConfig, found: FoundLog) -> LoadedLog:
    """Open a log. After an unclean stop, read and check everything from the recovery point.

    Contradicting files are rebuilt if that cannot lose data. Otherwise an error names the file.
    """
    files = _list_files(directory)
    manifest = _load_manifest(directory, found)
    _require_logs(directory, files, manifest)
    producers = ProducerStates(directory, files.snapshots, manifest.snapshots)
    epochs = LeaderEpochCache(directory)
    read_all = found.read_all
    try:
        epochs.load()
    except CheckpointError as error:
        logger.warning("%s. The epochs are read from the batches instead.", error)
        read_all = True
    if not files.logs:
        return _start_empty(directory, config, found, files, producers, epochs, manifest)

    segments = [_open_segment(directory, base, config) for base in files.logs]
    for segment in segments:
        _require_noted_file(segment, manifest.segments.get(segment.base_offset), found.known)
    active = segments[-1]
    clean_shutdown = found.clean_shutdown and not read_all
    if clean_shutdown:
        # A log that went offline before a clean shutdown was not closed, as its recovery point shows.
        note = manifest.segments.get(active.base_offset)
        clean_shutdown = found.recovery_point >= _end_offset(active, note)
        if clean_shutdown and not _epochs_match(epochs, active):
            logger.warning("%s does not match the batches; the epochs are read from them", epochs.path)
            clean_shutdown, read_all = False, True
    recover_from = len(segments)
    if read_all:
        recover_from = 0
        if not epochs.is_sealed:
            epochs.forget_from(0)
    elif not clean_shutdown:
        recover_from = max(0, bisect_right(files.logs, found.recovery_point) - 1)
    recover_from = min(recover_from, _first_bad_transaction_index(segments, files.transactions, manifest))
    for at, segment in enumerate(segments[:recover_from]):
        note = manifest.segments.get(segment.base_offset)
        if segment.size and files.indexed.get(segment.base_offset) != 2:
            logger.warning("an index of %s is missing and is built again", segment.path)
            _rebuild_indexes(segment, segments[at + 1] if at + 1 < len(segments) else None)
        elif note is not None and (note.is_sealed or note.size == segment.size):
            segment.believe(note)

    if recover_from < len(segments):
        log_end_offset = _recover(segments, recover_from, producers, epochs, found, manifest)
    else:
        log_end_offset = active.refresh_tail()
        _replay(producers, segments, log_end_offset)
    _require_end(directory, segments[-1], log_end_offset, found)
    if config.is_tiered:
        log_start_offset = _tiered_log_start(epochs, found)
    else:
        log_start_offset = _log_start(directory, segments, epochs, found, log_end_offset)
    _restore_recent_batches(producers, segments)
    producers.remove_snapshots_after(log_end_offset)
    epochs.truncate_from_end(log_end_offset + 1)
    _remove_leftovers(directory, files)
    return LoadedLog(
        segments,
        producers,
        epochs,
        manifest,
        log_start_offset,
        log_end_offset,
        log_end_offset if clean_shutdown else min(found.recovery_point, log_end_offset),
    )


def _start_empty(
    directory: str,
    config: LogConfig,
    found: FoundLog,
    files: _Files,
    producers: ProducerStates,
    epochs: LeaderEpochCache,
    manifest: SegmentManifest,
) -> LoadedLog:
    """Treat a directory without segments as a new log, unless other files prove that it had records."""
    start = found.log_start_offset
    if start < found.least_end:
        path = segment_path(directory, found.known.active_base, LOG_SUFFIX)
        raise DamagedLogError(
            path, f"is missing, and no other segment is left. The log reached offset {found.least_end}"
        )
    _remove_leftovers(directory, files)
    segment = LogSegment(directory, start, config)
    segment.create_files()
    producers.remove_snapshots_after(-1)
    epochs.truncate_from_end(start)
    return LoadedLog([segment], producers, epochs, manifest, start, start, start)


def _load_manifest(directory: str, found: FoundLog) -> SegmentManifest:
    manifest = SegmentManifest(directory)
    if not found.use_manifest:
        manifest.discard()
        return manifest
    try:
        manifest.load()
    except CheckpointError as error:
        logger.warning("%s. It is written again.", error)
        manifest.discard()
    return manifest


def _require_noted_file(segment: LogSegment, note: SegmentNote | None, known: KnownLog) -> None:
    """Refuse a .log file that was shortened or belongs to another partition."""
    expected = note.first_crc if note is not None else None
    if note is not None and (segment.size < note.size or (note.is_sealed and segment.size > note.size)):
        when = "sealed" if note.is_sealed else "last closed"
        raise DamagedLogError(
            segment.path, f"has {segment.size} bytes. It had {note.size} bytes when it was {when}"
        )
    if expected is None and known.active_base == segment.base_offset:
        expected = known.active_first_crc
    if expected is not None and segment.size and segment.first_crc_of_file() != expected:
        raise DamagedLogError(segment.path, "does not begin with the batch that was written to it")


def _require_end(directory: str, last: LogSegment, end_offset: int, found: FoundLog) -> None:
    if end_offset < found.least_end:
        known = found.known
        if known.active_base > last.base_offset:
            missing = segment_path(directory, known.active_base, LOG_SUFFIX)
            raise DamagedLogError(missing, f"is missing: the log reached offset {known.end_offset}")
        source = RECOVERY_POINT_CHECKPOINT if found.recovery_point > end_offset else "the last run"
        raise DamagedLogError(
            last.path, f"ends at offset {end_offset}. According to {source} it reached {found.least_end}"
        )
    known_end = found.known.end_offset
    if last.base_offset < known_end < end_offset:
        at = last.locate(known_end - 1)
        if at is None or at.header.last_offset != known_end - 1:
            raise DamagedLogError(
                last.path, f"has no batch that ends at offset {known_end - 1}, and a batch behind it"
            )


def _log_start(
    directory: str, segments: list[LogSegment], epochs: LeaderEpochCache, found: FoundLog, end_offset: int
) -> int:
    """Return the log start offset. The leader epochs start there as well, so each file can verify the other."""
    base, start = segments[0].base_offset, max(found.log_start_offset, segments[0].base_offset)
    if found.is_start_certain:
        if start <= end_offset or not found.clean_shutdown:
            return start
    elif epochs.entries and _first_epoch(segments[0]) >= 0:
        by_epochs = max(base, epochs.entries[0][1])
        if start != by_epochs and (start > by_epochs or epochs.is_sealed):
            logger.warning("%s starts at %d by its leader epochs, not at %d", directory, by_epochs, start)
            start = by_epochs
    if start <= end_offset:
        return start
    raise DamagedLogError(
        os.path.join(os.path.dirname(directory), LOG_START_CHECKPOINT),
        f"says that {os.path.basename(directory)} starts at offset {start}, behind its end at {end_offset}. "
        f"Remove the line to serve all of the log; the number behind the version line counts the lines",
    )


def _tiered_log_start(epochs: LeaderEpochCache, found: FoundLog) -> int:
    """Return the log start offset of a log whose first records are in remote storage only.

    The leader epochs were cut when it moved, so they bound it if the checkpoint is older or missing.
    """
    by_epochs = epochs.entries[0][1] if epochs.entries else 0
    return max(found.log_start_offset, by_epochs)


def _first_epoch(segment: LogSegment) -> int:
    for _, header in segment.batches():
        return header.partition_leader_epoch
    return UNDEFINED_EPOCH


def _epochs_match(epochs: LeaderEpochCache, active: LogSegment) -> bool:
    """Return True if the file has the epoch of the last batch. It may be missing or belong to another log."""
    last = active.last_header
    if last is None or last.partition_leader_epoch < 0:
        return True
    entries = epochs.entries
    if entries and entries[0][1] > last.last_offset:
        return True  # all records were deleted
    if epochs.epoch_of(last.last_offset) == last.partition_leader_epoch:
        return True
    if epochs.is_sealed:
        raise DamagedLogError(
            active.path,
            f"has leader epoch {last.partition_leader_epoch} in its last batch, against {epochs.path}",
        )
    return False


def _first_bad_transaction_index(
    segments: list[LogSegment], present: set[int], manifest: SegmentManifest
) -> int:
    """Return the first segment to reread for aborted transactions."""
    for at, segment in enumerate(segments):
        index, base = segment.transaction_index, segment.base_offset
        note = manifest.segments.get(base)
        fault = None
        if note is not None and note.transaction_index_crc is not None:
            expected = note.transaction_index_crc
            is_final = note.is_sealed or note.size == segment.size
            if is_final and expected != (index.crc if base in present else NO_FILE):
                fault = "it is not the file that was written"
        if fault is None and base in present:
            end = segments[at + 1].base_offset if at + 1 < len(segments) else LONG_MAX
            fault = index.fault(base, end)
        if fault is not None:
            logger.warning("%s is built again: %s", index.path, fault)
            return at
    return len(segments)


def _open_segment(directory: str, base_offset: int, config: LogConfig) -> LogSegment:
    segment = LogSegment(directory, base_offset, config)
    status = os.stat(segment.path)
    segment.size = segment.unverified_end = status.st_size
    segment.created_ms = int(status.st_mtime * 1000)
    return segment


def _end_offset(segment: LogSegment, note: SegmentNote | None) -> int:
    try:
        end_offset = segment.refresh_tail()
        if note is None or note.size != segment.size:
            return end_offset
        if segment.time_index.last() == (note.max_timestamp, note.offset_of_max_timestamp):
            return end_offset
        logger.warning("%s does not end as it was written; it is built again", segment.time_index.path)
    except CorruptSegmentError as error:
        logger.warning("%s; its indexes are built again to see whether they are to blame", error)
    _rebuild_indexes(segment, None)
    return segment.refresh_tail()


def _rebuild_indexes(segment: LogSegment, following: LogSegment | None) -> None:
    """Rebuild indexes without truncating: the segment was complete when the broker last knew it."""
    invalid, end_offset = _scan(segment, segment.base_offset, None, None)
    if invalid is not None:
        raise CorruptSegmentError(segment.path, invalid.position, invalid.reason)
    if following is not None and end_offset > following.base_offset:
        raise CorruptSegmentError(segment.path, segment.size, f"it reaches into {following.path}")


def _scan(
    segment: LogSegment, next_offset: int, producers: ProducerStates | None, epochs: LeaderEpochCache | None
) -> tuple[Invalid | None, int]:
    """Check every batch and rebuild the indexes. Return the first invalid position, if any, and the end offset."""
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
        # A wrong offset or epoch becomes visible at the next complete batch.
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
    segments: list[LogSegment],
    first: int,
    producers: ProducerStates,
    epochs: LeaderEpochCache,
    found: FoundLog,
    manifest: SegmentManifest,
) -> int:
    """Scan from segment `first` to the end. Cut a torn tail, refuse anything worse. Return the log end offset."""
    start_offset = segments[first].base_offset
    _replay(producers, segments, start_offset)
    later_epochs = epochs.forget_from(start_offset)
    next_offset = start_offset
    for at in range(first, len(segments)):
        segment = segments[at]
        next_offset = max(next_offset, segment.base_offset)
        invalid, next_offset = _scan(segment, next_offset, producers, epochs)
        note = manifest.segments.get(segment.base_offset)
        if invalid is None and note is not None and note.is_sealed and next_offset != note.end_offset:
            raise DamagedLogError(
                segment.path,
                f"ends at offset {next_offset}. It ended at {note.end_offset} when it was sealed",
            )
        if invalid is not None:
            _require_torn_tail(segment, invalid, next_offset, segments[at + 1 :], found)
            _cut_tail(segment, invalid)
            for empty in segments[at + 1 :]:
                empty.rename_deleted()
            del segments[at + 1 :]
            break
    for epoch, start in later_epochs:
        if epoch > epochs.latest and start >= next_offset:
            epochs.assign(epoch, start)  # it started at the end of the log, so no batch has it
    epochs.write()
    return next_offset


def _require_torn_tail(
    segment: LogSegment, invalid: Invalid, next_offset: int, later: list[LogSegment], found: FoundLog
) -> None:
    """Allow truncation only of a batch being written when the process died, never of a finished one."""
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
    if next_offset < found.least_end:
        raise CorruptSegmentError(
            segment.path,
            invalid.position,
            f"{invalid.reason}. The log goes on from offset {next_offset} to {found.least_end}",
        )
    if not found.may_be_torn:
        raise CorruptSegmentError(
            segment.path, invalid.position, f"{invalid.reason}, and {LIVE_ENDS_FILE} is damaged too"
        )
    valid = find_batch(fd, invalid.position + 1, segment.size, next_offset)
    if valid is not None:
        raise CorruptSegmentError(
            segment.path, invalid.position, f"{invalid.reason}, and a valid batch follows at byte {valid}"
        )


def _is_old_message(data: bytes) -> bool:
    """Return True for message formats from before Kafka 0.11, which are unsupported but not damaged."""
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
    """Return the position of a complete batch at or after `start` with a valid checksum that continues the log.

    Its offset must exceed `next_offset`, the offset of the damaged batch. This rules out a batch that a user stored as
    a value, in the form its producer made it.
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
    """Restore the producers at offset `end` from the last earlier snapshot and the batches after it."""
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
    """Reread the last few batches before those in a snapshot.

    A snapshot keeps one batch per producer. A producer with five requests in flight when the broker stopped repeats all
    five, and each has to be recognised.
    """
    if not producers.producers or all(
        len(entry.batches) == REMEMBERED_BATCHES for entry in producers.producers.values()
    ):
        return
    headers: list[BatchHeader] = []
    for segment in segments[-2:]:
        if segment.size:
            entries = segment.offset_index.positions_from_end(4 * REMEMBERED_BATCHES)
            scan = segment.batches(entries[0] if entries else 0)
            found = [header for _, header in scan]
            if scan.invalid is not None and entries:  # the index points to a wrong position
                found = [header for _, header in segment.batches()]
            headers += found
            if segment is not segments[-1]:
                segment.release()
    for header in reversed(headers):
        if header.producer_id >= 0:
            producers.remember_older(header)
