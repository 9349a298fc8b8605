"""`ottla-segments`: the state of a partition's files when Ottla finished them.

Kafka's layout cannot reveal a shortened sealed segment, files swapped between partitions, or an aborted transaction
missing from an index. Each partition therefore keeps one line per segment and one per producer snapshot:

    segment <base offset> <sealed|open> <bytes> <end offset> <largest timestamp> <its offset> <first batch's CRC>
            <CRC of .index> <CRC of .timeindex> <CRC of .txnindex>
    snapshot <offset> <CRC of its content>

`-` means an unknown checksum, `none` a missing file. An open segment was the active one: it may have grown since, and
its indexes may have changed. The file has the format and the checksum of a checkpoint. Apache Kafka ignores it; a
directory used by Kafka in the meantime is read without it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from ottla.log.files.checkpoint import CheckpointError, partition_of, read_lines, write_lines

SEGMENT_MANIFEST = "ottla-segments"
NO_FILE = -1

_UNKNOWN, _NONE = "-", "none"


class SegmentNote(NamedTuple):
    """One segment. Unknown checksums are None, missing files NO_FILE."""

    base_offset: int
    is_sealed: bool
    size: int
    end_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    first_crc: int | None
    index_crc: int | None
    time_index_crc: int | None
    transaction_index_crc: int | None


class SegmentManifest:
    """Invariant: the file is always true of the segments, whenever the process dies. Code that removes or rewrites a
    segment therefore removes its line first (`forget`). Owner: the log's owner.
    """

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, SEGMENT_MANIFEST)
        self._owner = partition_of(directory)
        self.segments: dict[int, SegmentNote] = {}
        self.snapshots: dict[int, int] = {}

    def moved_to(self, directory: str) -> None:
        self._path = os.path.join(directory, SEGMENT_MANIFEST)

    def load(self) -> None:
        """Read the file. Raises CheckpointError if it is damaged."""
        lines, is_sealed = read_lines(self._path, owner=self._owner)
        if lines and not is_sealed:
            raise CheckpointError(f"{self._path} is damaged: it has no checksum")
        try:
            for line in lines:
                kind, *fields = line.split(" ")
                if kind == "snapshot":
                    self.snapshots[int(fields[0])] = int(fields[1])
                else:
                    note = _parse(fields)
                    self.segments[note.base_offset] = note
        except (ValueError, IndexError, TypeError):
            raise CheckpointError(f"{self._path} is damaged: {line!r} is not a line of it") from None

    def discard(self) -> None:
        """Remove an untrustworthy file."""
        self.segments.clear()
        self.snapshots.clear()
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    def write(self) -> None:
        lines = [_line(note) for _, note in sorted(self.segments.items())]
        lines += [f"snapshot {offset} {crc}" for offset, crc in sorted(self.snapshots.items())]
        write_lines(self._path, lines, owner=self._owner, sync=False)

    def note(self, note: SegmentNote) -> None:
        self.segments[note.base_offset] = note

    def forget(self, start: int, stop: int) -> None:
        """Remove the lines of segments with base offsets in [start, stop), before they change."""
        gone = [base for base in self.segments if start <= base < stop]
        if gone:
            for base in gone:
                del self.segments[base]
            try:
                self.write()
            except OSError:  # old segments must be deletable on a full disk; a missing file is harmless
                with suppress(FileNotFoundError):
                    os.unlink(self._path)


def _line(note: SegmentNote) -> str:
    head = f"segment {note.base_offset} {'sealed' if note.is_sealed else 'open'}"
    numbers = f"{note.size} {note.end_offset} {note.max_timestamp} {note.offset_of_max_timestamp}"
    return " ".join([head, numbers, *map(_shown, note[6:])])


def _shown(crc: int | None) -> str:
    return _UNKNOWN if crc is None else _NONE if crc == NO_FILE else f"{crc:08x}"


def _parse(fields: list[str]) -> SegmentNote:
    base, state, *numbers = fields[:6]
    if state not in ("sealed", "open") or len(fields) != 10:
        raise ValueError(state)
    crcs = [None if text == _UNKNOWN else NO_FILE if text == _NONE else int(text, 16) for text in fields[6:]]
    return SegmentNote(int(base), state == "sealed", *map(int, numbers), *crcs)
