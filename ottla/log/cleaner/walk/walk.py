"""The walk over the records of a chunk: what the compiled one and the one in plain Python both offer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

# What is to happen with a batch, as bits.
TAKE = 0
DROP_RECORDS = 1  # aborted data, or a marker whose time has come
KEEP_EMPTY = 2  # the batch stays as a header even if no record does
CONTROL = 4  # its record is a marker and has no key to look up
SET_HORIZON = 8  # a marker whose transaction is gone: from now on its time runs

#: Offset of the latest record that the map knows of, if it knows none.
NOTHING = -1


#: One batch of a chunk: where it is, and what its header says, in the order of the names below. A plain list: there
#: is one per batch, and numpy takes nothing else as fast.
Row = Sequence[int]
POSITION, SIZE, BASE_OFFSET, LAST_OFFSET = range(4)
CHECKSUM, ATTRIBUTES, PRODUCER_ID, PRODUCER_EPOCH, RECORDS = range(4, 9)


class Rules(NamedTuple):
    """By what a record stays or goes."""

    latest_offset: int  # what lies behind it was not looked at and stays
    now_ms: int
    horizon_ms: int  # until when tombstones are kept that are met for the first time


class Filtered(NamedTuple):
    """What is left of a chunk. `data` is valid until the next call."""

    data: memoryview
    changed: list[tuple[int, int]]  # position and size of batches that need a new checksum
    records: int
    kept: int


class Scanned(NamedTuple):
    rows: Sequence[Row]
    end: int  # where the last whole batch ends
    fault: str | None


class MalformedRecords(Exception):
    """A batch whose checksum is right and whose records are not what the format asks for."""


class Walk(Protocol):
    """The map from keys to their last offsets, and the loops over records that fill and ask it.

    Chunks are whole batches, not compressed. Owner: one job.
    """

    @property
    def keys(self) -> int:
        """How many keys the map has."""

    def scan(self, data: memoryview) -> Scanned:
        """The batches of a chunk, as far as they are whole."""

    def index(self, data: memoryview, rows: Sequence[Row], skip: bytes, start_offset: int) -> int:
        """Note the offsets of keys from `start_offset` on. How many batches were taken: fewer if the map is full."""

    def filter(self, data: memoryview, rows: Sequence[Row], modes: bytes, rules: Rules) -> Filtered:
        """What stays of the batches: unchanged, rewritten or emptied."""
