"""Group neighbouring segments to be merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
