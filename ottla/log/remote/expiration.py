"""The rule of retention for remote segments."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.log.config import LogConfig
from ottla.log.remote.segment_metadata import RemoteLogSegment


def expired_upto(
    segments: Sequence[RemoteLogSegment],
    config: LogConfig,
    log_start_offset: int,
    only_local_bytes: int,
    now_ms: int,
) -> int:
    """Return the new log start offset: the end of the oldest segments that are too old, or beyond the size."""
    upto = log_start_offset
    if not config.deletes:
        return upto
    excess = sum(each.size for each in segments) + only_local_bytes - config.retention_bytes
    for segment in segments:
        if segment.end_offset < log_start_offset:
            excess -= segment.size  # deleted already, but for its objects
            continue
        too_large = config.retention_bytes >= 0 and excess >= segment.size
        too_old = config.retention_ms >= 0 and now_ms - segment.max_timestamp_ms > config.retention_ms
        if not (too_large or too_old):
            break
        excess -= segment.size
        upto = max(upto, segment.end_offset + 1)
    return upto
