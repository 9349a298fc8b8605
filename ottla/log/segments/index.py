"""Indexes of a segment: offsets, times, aborted transactions."""

from __future__ import annotations

import logging
import os
import sys
from array import array
from bisect import bisect_left, bisect_right
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from ottla.log.files.checkpoint import sync_path
from ottla.log.files.segment_manifest import NO_FILE

# The two sparse indexes of a segment, in Kafka's file formats.
#
# `.index`      8-byte entries: offset relative to the segment (int32), position in the file (int32)
# `.timeindex` 12-byte entries: timestamp (int64), offset relative to the segment (int32)
#
# Both load on first use. New entries collect in memory and are written in groups. Only the active segment can have
# unwritten entries, and an unclean stop always causes a rescan of that segment.
#
# The partition's manifest has a checksum for the index of a sealed segment. A file that does not match counts as empty,
# and `is_damaged` tells the segment to rebuild it: without entries a lookup only takes longer.

logger = logging.getLogger(__name__)

OFFSET_ENTRY_SIZE = 8
TIME_ENTRY_SIZE = 12
GROUP = 64
_TIME_ENTRY = Struct(">qi")
_LITTLE = sys.byteorder == "little"


def read_entries(path: str, entry_size: int) -> bytes:
    data = read_file(path)
    return data[: len(data) - len(data) % entry_size]


def read_file(path: str) -> bytes:
    """Return the content of a file, empty if missing."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _read_last(path: str, entry_size: int) -> bytes:
    """Return the last entry of a file, empty if missing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        entries = os.fstat(fd).st_size // entry_size
        return os.pread(fd, entry_size, (entries - 1) * entry_size) if entries else b""
    finally:
        os.close(fd)


def _write_at(path: str, data: bytes, position: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        done = os.pwrite(fd, data, position)
        while done < len(data):  # an almost full disk accepts a part first
            done += os.pwrite(fd, data[done:], position + done)
    finally:
        os.close(fd)


def _cut(path: str, size: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(fd, size)
    finally:
        os.close(fd)


class _CheckedFile:
    """Checksum of an index file, updated by writes and compared on reads."""

    __slots__ = ("_crc", "base_offset", "expected_crc", "is_damaged", "path")

    def __init__(self, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.expected_crc: int | None = None  # from the manifest, if known
        self.is_damaged = False
        self._crc: int | None = None

    @property
    def crc(self) -> int:
        if self._crc is None:
            self._crc = self.expected_crc if self.expected_crc is not None else crc32c(read_file(self.path))
        return self._crc

    def _start_checked(self) -> None:
        """Start over: the file is new or about to be rewritten."""
        self.expected_crc, self.is_damaged, self._crc = None, False, 0

    def _read_checked(self, entry_size: int) -> bytes:
        data = read_file(self.path)
        if self.expected_crc is not None and crc32c(data) != self.expected_crc:
            logger.warning("%s is damaged: its checksum does not match. It is built again.", self.path)
            self.is_damaged = True
            return b""
        self._crc = crc32c(data)
        return data[: len(data) - len(data) % entry_size]

    def _wrote(self, data: bytes) -> None:
        if self._crc is None:
            self.expected_crc = None  # makes `crc` read the file
        else:
            self._crc = crc32c(data, self._crc)


class OffsetIndex(_CheckedFile):
    """Invariant: offsets and positions rise strictly. Owner: the segment."""

    __slots__ = ("_offsets", "_on_disk", "_positions")

    def __init__(self, path: str, base_offset: int) -> None:
        super().__init__(path, base_offset)
        self._offsets: array[int] | None = None
        self._positions: array[int] = array("I")
        self._on_disk = 0

    def _load(self) -> array[int]:
        entries = array("I", self._read_checked(OFFSET_ENTRY_SIZE))
        if _LITTLE:
            entries.byteswap()
        offsets, positions = entries[0::2], entries[1::2]
        # Kafka preallocates: a file it did not close has zeros after the last entry.
        rising = len(offsets)
        while rising > 1 and positions[rising - 1] == 0:
            rising -= 1
        if rising == 1 and offsets[0] == positions[0] == 0:
            rising = 0
        if rising < len(offsets):
            self._crc = None  # the file is longer than its entries
        del offsets[rising:], positions[rising:]
        self._on_disk = rising
        self._positions = positions
        self._offsets = offsets
        return offsets

    @property
    def is_loaded(self) -> bool:
        return self._offsets is not None

    @property
    def entries(self) -> list[tuple[int, int]]:
        offsets = self._load() if self._offsets is None else self._offsets
        return [(self.base_offset + o, p) for o, p in zip(offsets, self._positions, strict=True)]

    def __len__(self) -> int:
        return len(self._load() if self._offsets is None else self._offsets)

    def start_empty(self) -> None:
        """Prepare for a new file or a rebuild."""
        self._start_checked()
        self._offsets = array("I")
        self._positions = array("I")
        self._on_disk = 0

    def append(self, offset: int, position: int) -> None:
        offsets = self._load() if self._offsets is None else self._offsets
        if self.is_damaged:
            return  # the segment rebuilds it
        offsets.append(offset - self.base_offset)
        self._positions.append(position)
        if len(offsets) - self._on_disk >= GROUP:
            self.write()

    def lookup(self, offset: int) -> tuple[int, int]:
        """Return the last entry at or below `offset`: its offset and the position to scan from."""
        offsets = self._load() if self._offsets is None else self._offsets
        at = bisect_right(offsets, offset - self.base_offset) - 1
        if at < 0:
            return self.base_offset, 0
        return self.base_offset + offsets[at], self._positions[at]

    def last(self) -> tuple[int, int]:
        """Return the last entry, or (base offset, 0). Opening a log needs it without loading the whole index."""
        if self._offsets is None:
            entry = _read_last(self.path, OFFSET_ENTRY_SIZE)
            position = int.from_bytes(entry[4:], "big")
            if position:
                return self.base_offset + int.from_bytes(entry[:4], "big"), position
            self._load()
        if not self._offsets:
            return self.base_offset, 0
        return self.base_offset + self._offsets[-1], self._positions[-1]

    def first_behind(self, position: int) -> tuple[int, int] | None:
        """Return the first entry at or after a position, or None."""
        offsets = self._load() if self._offsets is None else self._offsets
        at = bisect_left(self._positions, position)
        return (self.base_offset + offsets[at], self._positions[at]) if at < len(offsets) else None

    def positions_from_end(self, count: int) -> list[int]:
        if self._offsets is None:
            self._load()
        return list(self._positions[-count:])

    def write(self, *, create: bool = False) -> None:
        """Write the collected entries; `create` makes the file even without entries."""
        offsets = self._offsets
        if offsets is None:
            if create:
                _write_at(self.path, b"", 0)
            return
        if len(offsets) == self._on_disk and not create:
            return
        new = offsets[self._on_disk :]
        out = array("I", bytes(OFFSET_ENTRY_SIZE * len(new)))
        out[0::2] = new
        out[1::2] = self._positions[self._on_disk :]
        if _LITTLE:
            out.byteswap()
        data = out.tobytes()
        _write_at(self.path, data, OFFSET_ENTRY_SIZE * self._on_disk)
        self._wrote(data)
        self._on_disk = len(offsets)

    def truncate_to(self, offset: int) -> None:
        offsets = self._load() if self._offsets is None else self._offsets
        keep = bisect_left(offsets, max(0, offset - self.base_offset))
        del offsets[keep:], self._positions[keep:]
        self._on_disk = min(self._on_disk, keep)
        _cut(self.path, OFFSET_ENTRY_SIZE * self._on_disk)
        self.expected_crc = self._crc = None

    def rewrite(self) -> None:
        self._on_disk, self._crc = 0, 0
        self.write()
        _cut(self.path, OFFSET_ENTRY_SIZE * self._on_disk)

    def unload(self) -> None:
        if self._offsets is not None and len(self._offsets) == self._on_disk:
            self._offsets = None
            self._positions = array("I")


class TimeIndex(_CheckedFile):
    """Invariant: timestamps rise strictly, offsets never fall. An entry (t, o) means: every record of the segment with
    a timestamp above t comes after offset o. Owner: the segment.
    """

    __slots__ = ("_offsets", "_on_disk", "_timestamps")

    def __init__(self, path: str, base_offset: int) -> None:
        super().__init__(path, base_offset)
        self._timestamps: array[int] | None = None
        self._offsets: array[int] = array("I")
        self._on_disk = 0

    def _load(self) -> array[int]:
        timestamps, offsets = array("q"), array("I")
        last = -1
        data = self._read_checked(TIME_ENTRY_SIZE)
        for timestamp, offset in _TIME_ENTRY.iter_unpack(data):
            if timestamp <= last or offset < 0 or (offsets and offset < offsets[-1]):
                break  # zeros preallocated by Kafka
            if timestamp == offset == 0 and not offsets:
                break
            timestamps.append(timestamp)
            offsets.append(offset)
            last = timestamp
        if len(offsets) * TIME_ENTRY_SIZE < len(data):
            self._crc = None
        self._on_disk = len(offsets)
        self._offsets = offsets
        self._timestamps = timestamps
        return timestamps

    @property
    def entries(self) -> list[tuple[int, int]]:
        timestamps = self._load() if self._timestamps is None else self._timestamps
        return [(t, self.base_offset + o) for t, o in zip(timestamps, self._offsets, strict=True)]

    def __len__(self) -> int:
        return len(self._load() if self._timestamps is None else self._timestamps)

    def start_empty(self) -> None:
        self._start_checked()
        self._timestamps = array("q")
        self._offsets = array("I")
        self._on_disk = 0

    def last(self) -> tuple[int, int]:
        """Return the largest timestamp and its offset, or (-1, base offset) without entries."""
        if self._timestamps is None:
            entry = _read_last(self.path, TIME_ENTRY_SIZE)
            if any(entry):
                timestamp, offset = _TIME_ENTRY.unpack(entry)
                return timestamp, self.base_offset + offset
            self._load()
        if not self._timestamps:
            return -1, self.base_offset
        return self._timestamps[-1], self.base_offset + self._offsets[-1]

    def distrust(self) -> None:
        """Ignore the wrong entries until the segment rebuilds them."""
        self.is_damaged = True
        self._timestamps, self._offsets, self._on_disk = array("q"), array("I"), 0

    def maybe_append(self, timestamp: int, offset: int) -> None:
        timestamps = self._load() if self._timestamps is None else self._timestamps
        if timestamp < 0 or self.is_damaged or (timestamps and timestamp <= timestamps[-1]):
            return
        timestamps.append(timestamp)
        self._offsets.append(offset - self.base_offset)
        if len(timestamps) - self._on_disk >= GROUP:
            self.write()

    def lookup(self, timestamp: int) -> int:
        """Return an offset such that no earlier record of the segment has `timestamp` or a later one."""
        timestamps = self._load() if self._timestamps is None else self._timestamps
        at = bisect_right(timestamps, timestamp) - 1
        return self.base_offset + (self._offsets[at] if at >= 0 else 0)

    def write(self, *, create: bool = False) -> None:
        timestamps = self._timestamps
        if timestamps is None:
            if create:
                _write_at(self.path, b"", 0)
            return
        if len(timestamps) == self._on_disk and not create:
            return
        pack = _TIME_ENTRY.pack
        new = zip(timestamps[self._on_disk :], self._offsets[self._on_disk :], strict=True)
        data = b"".join([pack(timestamp, offset) for timestamp, offset in new])
        _write_at(self.path, data, TIME_ENTRY_SIZE * self._on_disk)
        self._wrote(data)
        self._on_disk = len(timestamps)

    def truncate_to(self, offset: int) -> None:
        timestamps = self._load() if self._timestamps is None else self._timestamps
        keep = bisect_left(self._offsets, max(0, offset - self.base_offset))
        del timestamps[keep:], self._offsets[keep:]
        self._on_disk = min(self._on_disk, keep)
        _cut(self.path, TIME_ENTRY_SIZE * self._on_disk)
        self.expected_crc = self._crc = None

    def rewrite(self) -> None:
        self._on_disk, self._crc = 0, 0
        self.write()
        _cut(self.path, TIME_ENTRY_SIZE * self._on_disk)

    def unload(self) -> None:
        if self._timestamps is not None and len(self._timestamps) == self._on_disk:
            self._timestamps = None
            self._offsets = array("I")


# Aborted transactions of a segment, in Kafka's `.txnindex` file.
#
# 34-byte entries: version (int16, 0), producer id, first offset, last offset, last stable offset (int64 each). The
# segment with a transaction's abort marker contains its entry. Segments without aborted transactions have no file.

TRANSACTION_ENTRY_SIZE = 34
_ENTRY = Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int  # offset of the abort marker
    last_stable_offset: int  # last stable offset after this transaction ended


class CompletedTransaction(NamedTuple):
    """An ended transaction with records in this partition."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class TransactionIndex:
    """Invariant: last offsets rise strictly; once loaded, memory matches the file. Owner: the segment."""

    __slots__ = ("_entries", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._entries: list[AbortedTransaction] | None = None

    @property
    def entries(self) -> list[AbortedTransaction]:
        if self._entries is None:
            self._entries = self._load()
        return self._entries

    def _load(self) -> list[AbortedTransaction]:
        whole = read_entries(self.path, TRANSACTION_ENTRY_SIZE)
        return [AbortedTransaction(*fields[1:]) for fields in _ENTRY.iter_unpack(whole)]

    def fault(self, base_offset: int, end_offset: int) -> str | None:
        """Return why the file is invalid for a segment with the offsets [base, end), or None."""
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return None
        if len(data) % TRANSACTION_ENTRY_SIZE:
            return "its last entry is cut short"
        last = base_offset - 1
        for version, _, first_offset, last_offset, _ in _ENTRY.iter_unpack(data):
            if version != _VERSION:
                return f"version {version}"
            if not (first_offset <= last_offset and last < last_offset < end_offset):
                return f"offset {last_offset} does not belong there"
            last = last_offset
        return None

    @property
    def crc(self) -> int:
        try:
            with open(self.path, "rb") as file:
                return int(crc32c(file.read()))
        except FileNotFoundError:
            return NO_FILE

    def start_empty(self) -> None:
        """Drop the entries and the file, which is new or about to be rebuilt."""
        self._entries = []
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    def append(self, aborted: AbortedTransaction) -> None:
        entries = self.entries
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(fd, _ENTRY.pack(_VERSION, *aborted), len(entries) * TRANSACTION_ENTRY_SIZE)
        finally:
            os.close(fd)
        entries.append(aborted)

    def collect(self, start: int, upto: int, found: list[AbortedTransaction]) -> bool:
        """Add the transactions with records in [start, upto). Return True if no later segment can have any."""
        for aborted in self.entries:
            if aborted.last_offset >= start and aborted.first_offset < upto:
                found.append(aborted)
            if aborted.last_stable_offset >= upto:
                return True
        return False

    def truncate_to(self, offset: int) -> None:
        entries = self.entries
        keep = len(entries)
        while keep and entries[keep - 1].last_offset >= offset:
            keep -= 1
        if keep < len(entries):
            os.truncate(self.path, keep * TRANSACTION_ENTRY_SIZE)
            del entries[keep:]

    def sync(self) -> None:
        """Make the entries survive a power failure: unlike a lost index of another kind, a loss here would go
        unnoticed.
        """
        if self.entries:
            sync_path(self.path)

    def unload(self) -> None:
        if self._entries:  # an empty list is free and avoids a file lookup
            self._entries = None
