"""Aborted transactions of a segment, in Kafka's `.txnindex` file.

34-byte entries: version (int16, 0), producer id, first offset, last offset, last stable offset (int64 each). The
segment with a transaction's abort marker contains its entry. Segments without aborted transactions have no file.
"""

from __future__ import annotations

import os
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from ottla.log.files.checkpoint import sync_path
from ottla.log.files.segment_manifest import NO_FILE
from ottla.log.segments.index import read_entries

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
