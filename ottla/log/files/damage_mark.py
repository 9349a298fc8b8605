"""`ottla-damaged`: a partition went offline because of damage. The file keeps the evidence.

The next start reads the whole log again, and removes the file if it finds nothing wrong. The evidence is the length of
the log and its first batch, because every stop writes checkpoints and live ends anew.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from ottla.log.files.checkpoint import CheckpointError, partition_of, read_lines, write_lines

DAMAGE_MARK = "ottla-damaged"


class KnownLog(NamedTuple):
    """Facts about a log that are certain before it is read; zeros where nothing is known."""

    end_offset: int = 0  # it reached at least this offset
    active_base: int = 0
    active_first_crc: int | None = None  # of the first batch in the segment that starts at `active_base`


NOTHING_KNOWN = KnownLog()


def mark_damaged(directory: str, known: KnownLog, reason: str) -> None:
    """Write the mark; without it the next start has less to go by, so a failure is not worse than that."""
    crc = "-" if known.active_first_crc is None else str(known.active_first_crc)
    lines = [f"known {known.end_offset} {known.active_base} {crc}", "reason " + " ".join(reason.split())]
    with suppress(OSError):
        write_lines(os.path.join(directory, DAMAGE_MARK), lines, owner=partition_of(directory))


def read_damage_mark(directory: str) -> KnownLog | None:
    """None without a mark. A mark that is damaged itself says only that the log has to be read."""
    path = os.path.join(directory, DAMAGE_MARK)
    if not os.path.lexists(path):
        return None
    try:
        lines, is_sealed = read_lines(path, owner=partition_of(directory))
        _, end, base, crc = lines[0].split(" ")
        if is_sealed:
            return KnownLog(int(end), int(base), None if crc == "-" else int(crc))
    except (CheckpointError, ValueError, IndexError):
        pass
    return KnownLog()


def remove_damage_mark(directory: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(directory, DAMAGE_MARK))
