"""Replace segments by a cleaned one, without loss if a crash occurs at any moment.

    .cleaned -> .swap     the new files are complete; renaming the .log, which comes last, is the point of no return
    old -> .deleted       readers may still use them, so they are unlinked later
    .swap -> no suffix    the .log first

Startup completes an interrupted swap: with `.cleaned` nothing has happened yet, with `.swap` everything is decided.
Apache Kafka has the same names and rules, so either can complete a swap begun by the other.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress

from ottla.log.batch import BatchScan
from ottla.log.errors import DamagedLogError

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
