"""Result of an append."""

from __future__ import annotations


class AppendInfo:
    """Offsets assigned to batches. A duplicate has the offsets of its first append."""

    __slots__ = (
        "duplicate",
        "first_offset",
        "last_offset",
        "log_append_time",
        "log_start_offset",
        "max_timestamp",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        log_append_time: int,
        log_start_offset: int,
        max_timestamp: int,
        duplicate: bool = False,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_append_time = log_append_time  # -1 for producer timestamps
        self.log_start_offset = log_start_offset
        self.max_timestamp = max_timestamp
        self.duplicate = duplicate
