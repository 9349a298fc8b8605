"""Messages between the broker and the cleaner process: jobs in one direction, progress and results in the other.

Each message is a JSON object on its own line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

_OFFSET_SPAN = 2**31 - 1
#: The swap renames all files of a group at once and blocks everything else.
_MOST_SEGMENTS = 64


class SourceSegment(NamedTuple):
    """A sealed segment as input of the cleaner."""

    base_offset: int
    size: int
    index_size: int = 0
    time_index_size: int = 0


def group_segments(
    segments: Sequence[SourceSegment], max_size: int, max_index_size: int, end_offset: int
) -> list[list[SourceSegment]]:
    """Group neighbours that would fit in one segment even if nothing were removed.

    `end_offset` is the end of the last segment.
    """
    groups: list[list[SourceSegment]] = []
    size = index_size = time_index_size = 0
    for at, segment in enumerate(segments):
        size += segment.size
        index_size += segment.index_size
        time_index_size += segment.time_index_size
        last_offset = (segments[at + 1].base_offset if at + 1 < len(segments) else end_offset) - 1
        if (
            groups
            and size <= max_size
            and index_size <= max_index_size
            and time_index_size <= max_index_size
            and len(groups[-1]) < _MOST_SEGMENTS
            and (segment.size == 0 or last_offset - groups[-1][0].base_offset <= _OFFSET_SPAN)
        ):
            groups[-1].append(segment)
            continue
        groups.append([segment])
        size, index_size, time_index_size = segment.size, segment.index_size, segment.time_index_size
    return groups


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
