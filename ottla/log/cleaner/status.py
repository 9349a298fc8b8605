"""What the cleaner is doing, for those who watch it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.log.files.checkpoint import TopicPartition


@dataclass(slots=True)
class RunningClean:
    """A log that is being compacted. `bytes_total` counts the dirty section twice: it is read in both passes."""

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
    """How the last compaction of a log went."""

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
    #: Bytes that wait to be compacted, by log, as of the last look.
    backlog: dict[TopicPartition, int] = field(default_factory=dict)
    max_dirty_ratio: float = 0.0
    #: Logs that cannot be compacted, and why. They are tried again after a restart.
    uncleanable: dict[TopicPartition, str] = field(default_factory=dict)
    #: Why a large log was compacted in plain Python; None if none was.
    uncompiled: str | None = None
    last: FinishedClean | None = None
    cleaned_logs: int = 0
    cancelled: int = 0
    bytes_read: int = 0
    records_read: int = 0
    records_kept: int = 0
