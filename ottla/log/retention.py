"""Find segments that have outlived their topic's retention; `PartitionLog.delete_old_segments` deletes them."""

from __future__ import annotations

from ottla.log.config import LogConfig
from ottla.log.segments.partition_segments import LogSegments


def deletable_segments(
    segments: LogSegments, config: LogConfig, log_start_offset: int, now_ms: int, upto: int
) -> int:
    """Return the number of deletable segments, starting with the oldest. If all are, the active one is rolled first.

    Segments that reach `upto` stay, because not every in-sync replica has them.
    """
    excess = segments.size - config.retention_bytes
    count = 0
    for at, segment in enumerate(segments):
        is_active = at + 1 == len(segments)
        if not is_active and segments[at + 1].base_offset > upto:
            break
        below_start = not is_active and segments[at + 1].base_offset <= log_start_offset
        too_large = (
            config.deletes and config.retention_bytes >= 0 and excess >= segment.size and not is_active
        )
        too_old = (
            config.deletes
            and config.retention_ms >= 0
            and segment.size > 0
            and now_ms - segment.largest_timestamp() > config.retention_ms
        )
        if not (below_start or too_large or too_old):
            break
        excess -= segment.size
        count += 1
    return count
