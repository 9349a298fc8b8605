"""`ottla-damaged`: marks a partition that went offline because of damage, and keeps the evidence.

The next start rereads the whole log and removes the file if the log is intact. The evidence is the log's length and
first batch, because every stop rewrites checkpoints and live ends.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from ottla.log.files.checkpoint import CheckpointError, partition_of, read_lines, write_lines

DAMAGE_MARK = "ottla-damaged"


class KnownLog(NamedTuple):
    """Facts about a log known before reading it; zeros where unknown."""

    end_offset: int = 0  # minimum end offset
    active_base: int = 0
    active_first_crc: int | None = None  # CRC of the first batch in the segment at `active_base`


NOTHING_KNOWN = KnownLog()


def mark_damaged(directory: str, known: KnownLog, reason: str) -> None:
    """Write the mark. A failure is harmless: the next start merely knows less."""
    crc = "-" if known.active_first_crc is None else str(known.active_first_crc)
    lines = [f"known {known.end_offset} {known.active_base} {crc}", "reason " + " ".join(reason.split())]
    with suppress(OSError):
        write_lines(os.path.join(directory, DAMAGE_MARK), lines, owner=partition_of(directory))


def read_damage_mark(directory: str) -> KnownLog | None:
    """Return None without a mark. A damaged mark only tells that the log has to be read."""
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
