"""Common interface of the compiled walk and the walk in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

# Modes of a batch, as bits.
TAKE = 0
DROP_RECORDS = 1  # aborted data, or an expired marker
KEEP_EMPTY = 2  # keep the header even without records
CONTROL = 4  # contains a marker without a key to look up
SET_HORIZON = 8  # a marker whose transaction is gone: its expiry starts now

#: Latest offset of an empty map.
NOTHING = -1


#: One batch of a chunk: position and header fields, in the order of the names below. A plain list, because there is one
#: per batch and numpy accepts nothing else as quickly.
Row = Sequence[int]
POSITION, SIZE, BASE_OFFSET, LAST_OFFSET = range(4)
CHECKSUM, ATTRIBUTES, PRODUCER_ID, PRODUCER_EPOCH, RECORDS = range(4, 9)


class Rules(NamedTuple):
    """Rules for keeping or dropping a record."""

    latest_offset: int  # later records were not indexed and stay
    now_ms: int
    horizon_ms: int  # expiry of tombstones met for the first time


class Filtered(NamedTuple):
    """Remainder of a chunk. `data` is valid until the next call."""

    data: memoryview
    changed: list[tuple[int, int]]  # position and size of batches that need a new checksum
    records: int
    kept: int


class Scanned(NamedTuple):
    rows: Sequence[Row]
    end: int  # end of the last complete batch
    fault: str | None


class MalformedRecords(Exception):
    """A batch with a valid checksum and malformed records."""


class Walk(Protocol):
    """Map from keys to their last offsets, with the loops over records that fill and query it.

    Chunks are complete uncompressed batches. Owner: one job.
    """

    @property
    def keys(self) -> int:
        """Number of keys in the map."""

    def scan(self, data: memoryview) -> Scanned:
        """Return the complete batches of a chunk."""

    def index(self, data: memoryview, rows: Sequence[Row], skip: bytes, start_offset: int) -> int:
        """Index the keys from `start_offset`. Return the number of batches taken: fewer if the map is full."""

    def filter(self, data: memoryview, rows: Sequence[Row], modes: bytes, rules: Rules) -> Filtered:
        """Return the remaining batches: unchanged, rewritten or emptied."""
