"""The segments of a partition, and replacing them atomically."""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress

from ottla.log.batch import BatchScan
from ottla.log.config import CorruptSegmentError, DamagedLogError
from ottla.log.files.checkpoint import sync_path
from ottla.log.files.descriptors import EMPTY_REGION, FileRegion
from ottla.log.segments.index import AbortedTransaction
from ottla.log.segments.segment import LogSegment

# Replace segments by a cleaned one, without loss if a crash occurs at any moment.
#
#     .cleaned -> .swap     the new files are complete; renaming the .log, which comes last, is the point of no return
#     old -> .deleted       readers may still use them, so they are unlinked later
#     .swap -> no suffix    the .log first
#
# Startup completes an interrupted swap: with `.cleaned` nothing has happened yet, with `.swap` everything is decided.
# Apache Kafka has the same names and rules, so either can complete a swap begun by the other.

logger = logging.getLogger(__name__)

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

_LOG_SUFFIX = ".log"
_SEGMENT_SUFFIXES = (_LOG_SUFFIX, ".index", ".timeindex", ".txnindex")


def decide_swap(directory: str, base_offset: int) -> None:
    """Run the first step. After a failure the new files are discarded and nothing has changed."""
    stem = f"{directory}/{base_offset:020d}"
    try:
        for suffix in reversed(_SEGMENT_SUFFIXES):
            with suppress(FileNotFoundError):
                os.rename(stem + suffix + CLEANED_SUFFIX, stem + suffix + SWAP_SUFFIX)
    except OSError:
        discard_cleaned(directory, base_offset)
        raise


def finish_swap(directory: str, base_offset: int) -> None:
    """Run the last step, after the old files were renamed."""
    stem = f"{directory}/{base_offset:020d}"
    for suffix in _SEGMENT_SUFFIXES:
        with suppress(FileNotFoundError):
            os.rename(stem + suffix + SWAP_SUFFIX, stem + suffix)


def discard_cleaned(directory: str, base_offset: int) -> None:
    """Remove an unneeded new segment: the .log first, since the others mean nothing without it."""
    stem = f"{directory}/{base_offset:020d}"
    for suffix in _SEGMENT_SUFFIXES:
        for state in (CLEANED_SUFFIX, SWAP_SUFFIX):
            with suppress(FileNotFoundError):
                os.unlink(stem + suffix + state)


def complete_swaps(directory: str, names: list[str]) -> bool:
    """Complete or undo swaps before loading a directory. Return True if anything changed."""
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    swaps = sorted(name for name in names if name.endswith(SWAP_SUFFIX))
    first_cleaned = min((_offset(name) for name in cleaned), default=None)
    for name in list(swaps):
        if first_cleaned is not None and _offset(name) >= first_cleaned:
            # Some files are still `.cleaned`: the old files are untouched.
            os.unlink(f"{directory}/{name}")
            swaps.remove(name)
    for name in cleaned:
        os.unlink(f"{directory}/{name}")
    for name in [name for name in swaps if name.endswith(_LOG_SUFFIX + SWAP_SUFFIX)]:
        base_offset = _offset(name)
        end_offset, fault = _read_swap(f"{directory}/{name}", base_offset)
        if fault is None:
            _remove_replaced(directory, names, base_offset, end_offset)
        elif f"{base_offset:020d}{_LOG_SUFFIX}" in names:
            # The first old file still exists, so all of them do, with all records.
            logger.warning(
                "%s/%s is damaged (%s): the segments that it replaces stay", directory, name, fault
            )
            discard_cleaned(directory, base_offset)
            swaps = [each for each in swaps if _offset(each) != base_offset]
        elif os.path.getsize(f"{directory}/{name}") or _holds_deleted(directory, names):
            raise DamagedLogError(f"{directory}/{name}", f"is damaged: {fault}")
    # Logs first: while one is a .swap, files without a suffix count as old.
    for name in sorted(swaps, key=lambda name: not name.endswith(_LOG_SUFFIX + SWAP_SUFFIX)):
        logger.info("finishing the compaction of %s/%s", directory, name)
        os.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    return bool(cleaned or swaps)


def _holds_deleted(directory: str, names: list[str]) -> bool:
    """Return True if the replaced files had records: the new one then has some, too."""
    deleted = (name for name in names if name.endswith(_LOG_SUFFIX + ".deleted"))
    return any(os.path.getsize(f"{directory}/{name}") for name in deleted)


def _remove_replaced(directory: str, names: list[str], base_offset: int, end_offset: int) -> None:
    for name in names:
        stem, suffix = os.path.splitext(name)
        if (
            suffix in _SEGMENT_SUFFIXES
            and stem.isdecimal()
            and (int(stem) == base_offset or base_offset <= int(stem) < end_offset)
        ):
            with suppress(FileNotFoundError):
                os.unlink(f"{directory}/{name}")


def _read_swap(path: str, base_offset: int) -> tuple[int, str | None]:
    """Return the end offset of a new segment, and the reason if it cannot replace others."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = base_offset
        scan = BatchScan(fd, 0, os.fstat(fd).st_size, check_crc=True)
        for _, header in scan:
            if header.base_offset < end:
                return end, f"offset {header.base_offset} follows {end - 1}"
            end = header.last_offset + 1
    finally:
        os.close(fd)
    if scan.invalid is not None:
        return end, scan.invalid.reason
    return end, "it is empty" if end == base_offset else None


def _offset(name: str) -> int:
    digits = name.split(".", 1)[0]
    return int(digits) if digits.isdecimal() else -1


# The segments of a partition in order, and removed files not yet unlinked.


class LogSegments:
    """Invariant: base offsets rise strictly; there is at least one segment, and the last one is active.

    Owner: the log's owner. A thread may iterate: it gets a copy.
    """

    def __init__(self, segments: list[LogSegment]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._deleted: list[tuple[int, list[str]]] = []  # time to unlink, and files

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments.copy())

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, at: int) -> LogSegment:
        return self._segments[at]

    @property
    def base_offset(self) -> int:
        return self._bases[0]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    def append(self, segment: LogSegment) -> None:
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def at_or_after(self, offset: int) -> list[LogSegment]:
        """Return the segment containing `offset` and all later ones."""
        return self._segments[max(0, bisect_right(self._bases, offset) - 1) :]

    def count_below(self, offset: int) -> int:
        """Return the number of segments completely below `offset`."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def base_at(self, offset: int) -> int:
        """Return the base offset of the segment containing `offset`, or of the first one if `offset` precedes it."""
        return self._bases[max(0, bisect_right(self._bases, offset) - 1)]

    def end_of(self, segment: LogSegment) -> int:
        """Return the end offset of a sealed segment."""
        return self._bases[bisect_right(self._bases, segment.base_offset)]

    def read(self, offset: int, max_bytes: int, upto: int, log_end_offset: int, min_one: bool) -> FileRegion:
        """See `PartitionLog.read`, which has checked that `offset` is below `upto`."""
        for segment in self.at_or_after(offset):
            found = segment.locate(offset)
            if found is not None:
                break
        else:
            return EMPTY_REGION
        position, first = found
        segment_end = log_end_offset if segment is self._segments[-1] else self.end_of(segment)
        if first.last_offset >= upto:
            if position < segment.unverified_end:
                # The batch may be committed with a damaged offset: the next batch or the segment's end decides.
                _require_good(segment, position, position + first.size, segment_end)
            return EMPTY_REGION
        end = segment.size
        if upto < segment_end:
            bound = segment.locate(upto)
            end = segment.size if bound is None else bound.position
        size = min(max_bytes, end - position)
        if size < first.size:
            if not min_one:
                return EMPTY_REGION
            size = first.size
        if position < segment.unverified_end:
            size = _require_good(segment, position, position + size, segment_end) - position
        return FileRegion(segment.open_file(), position, size)

    def aborted_transactions(
        self, offset: int, region: FileRegion, log_end_offset: int
    ) -> list[AbortedTransaction]:
        """See `PartitionLog.aborted_transactions`."""
        found: list[AbortedTransaction] = []
        upto = -1
        for segment in self.at_or_after(offset):
            if upto < 0 and region.file is not None and region.file.path == segment.path:
                end = log_end_offset if segment is self._segments[-1] else self.end_of(segment)
                upto = segment.offset_after(region.position + region.size, end)
            if upto >= 0 and segment.transaction_index.collect(offset, upto, found):
                break
        return found

    def replace_all(self, segments: list[LogSegment]) -> None:
        """Remove all files now and continue with others, which may reuse their names."""
        self._discard(self._segments)
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]

    def discard_above(self, offset: int) -> None:
        keep = bisect_right(self._bases, offset)
        self._discard(self._segments[keep:])
        del self._segments[keep:], self._bases[keep:]

    def _discard(self, segments: list[LogSegment]) -> None:
        # Start at the end, so that a crash in between leaves no gap.
        for segment in reversed(segments):
            for path in segment.rename_deleted():
                with suppress(FileNotFoundError):
                    os.unlink(path)
            segment.close_file()

    def delete_first(self, count: int, unlink_at_ms: int) -> None:
        """Remove the oldest segments from the log. Readers may still use them, so their files are unlinked later."""
        removed = self._segments[:count]
        del self._segments[:count], self._bases[:count]
        files = [path for segment in removed for path in segment.rename_deleted()]
        self._deleted.append((unlink_at_ms, files))

    def replace(self, old: list[LogSegment], new: LogSegment, unlink_at_ms: int) -> None:
        """Replace neighbours by one segment with the same end. Their files are unlinked later."""
        at = self._segments.index(old[0])
        files = [path for segment in old for path in segment.rename_deleted()]
        self._segments[at : at + len(old)] = [new]
        self._bases[at : at + len(old)] = [new.base_offset]
        self._deleted.append((unlink_at_ms, files))

    def unlink_deleted(self, now_ms: int) -> None:
        due = [path for when, files in self._deleted if when <= now_ms for path in files]
        self._deleted = [entry for entry in self._deleted if entry[0] > now_ms]
        for path in due:
            with suppress(FileNotFoundError):
                os.unlink(path)

    def moved_to(self, directory: str) -> None:
        for segment in self._segments:
            segment.moved_to(directory)
        self._deleted = [
            (when, [os.path.join(directory, os.path.basename(path)) for path in files])
            for when, files in self._deleted
        ]

    def close(self) -> None:
        """Close all descriptors; regions being sent keep theirs."""
        for segment in self._segments:
            segment.close_file()

    def sync(self, start: int, end: int) -> None:
        """fsync the segments with offsets in [start, end). May run in a thread."""
        segments = self._segments.copy()
        for at, segment in enumerate(segments):
            is_last = at + 1 == len(segments)
            if segment.base_offset >= end or (not is_last and segments[at + 1].base_offset <= start):
                continue
            file = segment.file
            if file is not None:
                os.fsync(file.fd)
            else:
                for path in segment.paths:
                    with suppress(FileNotFoundError):  # deleted in the meantime: nothing left to sync
                        sync_path(path)


def _require_good(segment: LogSegment, position: int, end: int, end_offset: int) -> int:
    """Return the end of the valid part; the first batch must be valid."""
    reached = segment.verify(position, end, end_offset)
    if reached == position:
        raise CorruptSegmentError(
            segment.path, position, "the checksum does not match, or the batch behind it does not follow"
        )
    return reached
