"""Messages between the broker and the cleaner process: jobs in one direction, progress and results in the other.

Each message is a JSON object on its own line.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ottla.log.cleaner.worker.grouping import SourceSegment


@dataclass(slots=True)
class CleanJob:
    """One log with all data needed to compact it."""

    directory: str
    segments: list[SourceSegment]  # from the start of the log to `first_uncleanable_offset`
    first_dirty_offset: int
    first_uncleanable_offset: int  # base offset of the first segment to leave untouched
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    now_ms: int
    delete_retention_ms: int
    dedupe_buffer_size: int
    load_factor: float
    io_buffer_size: int
    max_bytes_per_second: float
    #: Producer id, offset of its last record (-1: only markers remain), epoch.
    producers: list[tuple[int, int, int]] = field(default_factory=list)
    #: Base offsets of all segments that may have a .txnindex, including the active one.
    transaction_indexes: list[int] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> CleanJob:
        job = cls(**data)
        job.segments = [SourceSegment(*segment) for segment in job.segments]
        return job


@dataclass(slots=True)
class Progress:
    """Progress of a job, in bytes read from segments in both passes."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    keys: int = 0
    latest_offset: int = -1


@dataclass(slots=True)
class CleanedGroup:
    """A cleaned segment ready to replace `bases`."""

    bases: list[int]
    size: int
    max_timestamp: int
    offset_of_max_timestamp: int
