"""Status of the cleaner, for monitoring."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.log.files.checkpoint import TopicPartition


@dataclass(slots=True)
class RunningClean:
    """A running compaction. `bytes_total` counts the dirty section twice, since both passes read it."""

    name: TopicPartition
    bytes_total: int
    bytes_read: int = 0
    records_read: int = 0
    records_kept: int = 0

    @property
    def fraction(self) -> float:
        return min(1.0, self.bytes_read / self.bytes_total) if self.bytes_total else 1.0


@dataclass(slots=True)
class FinishedClean:
    """Outcome of a log's last compaction."""

    name: TopicPartition
    seconds: float
    bytes_read: int
    bytes_before: int
    bytes_after: int
    records_read: int
    records_kept: int


@dataclass(slots=True)
class CleanerStatus:
    """Progress, backlog and failures of the log cleaner. Owner: the event loop."""

    running: dict[TopicPartition, RunningClean] = field(default_factory=dict)
    #: Bytes waiting for compaction by log, as of the last check.
    backlog: dict[TopicPartition, int] = field(default_factory=dict)
    max_dirty_ratio: float = 0.0
    #: Logs that cannot be compacted, with the reason. A restart retries them.
    uncleanable: dict[TopicPartition, str] = field(default_factory=dict)
    #: Reason why a large log was compacted in plain Python; None if that never happened.
    uncompiled: str | None = None
    last: FinishedClean | None = None
    cleaned_logs: int = 0
    cancelled: int = 0
    bytes_read: int = 0
    records_read: int = 0
    records_kept: int = 0
