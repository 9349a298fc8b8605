"""Open active segments: limited in number per process. Idle partitions are closed first."""

from __future__ import annotations

from collections import OrderedDict
from threading import RLock
from typing import TYPE_CHECKING
from weakref import ref

from ottla.log.files import descriptors
from ottla.log.files.file_region import SegmentFile

if TYPE_CHECKING:
    from ottla.log.segments.segment import LogSegment

# Segments with appends since the last check are skipped, at most this many in a row.
_LOOKS = 64
_AT_ONCE = 16


class ActiveFiles:
    """Invariant: at most about `capacity` active segments have a descriptor; others reopen their file on use. Appends
    and reads of open segments do not involve this class.

    Regions being sent keep their own reference. Owner: the process; threads open logs, hence the lock.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self._capacity = capacity
        # Segments with their size at the last check, oldest check first. Weak references: a log dropped without being
        # closed, as in a crash, releases its descriptors.
        self._open: OrderedDict[ref[LogSegment], int] = OrderedDict()
        self._lock = RLock()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def capacity(self) -> int:
        if self._capacity is None:
            self._capacity = descriptors.for_active_segments()
        return self._capacity

    @capacity.setter
    def capacity(self, capacity: int) -> None:
        self._capacity = capacity

    def open(self, segment: LogSegment, *, create: bool = False) -> SegmentFile:
        """Open the file for appends, possibly closing another one."""
        self.drop(segment)
        self.close_idle(len(self._open) + 1 - self.capacity)
        # Without the lock: a hanging disk must not block other logs.
        try:
            file = SegmentFile(segment.path, writable=True, create=create)
        except OSError as error:
            if not descriptors.ran_out(error) or not self.close_idle(_AT_ONCE):
                raise
            file = SegmentFile(segment.path, writable=True, create=create)
        with self._lock:
            segment.file = file
            self._open[ref(segment, self._forget)] = segment.size
        return file

    def drop(self, segment: LogSegment) -> None:
        with self._lock:
            self._open.pop(ref(segment), None)

    def close_idle(self, count: int = _AT_ONCE) -> int:
        """Close up to `count` files, those without appends for the longest time. Return the number closed."""
        closed = 0
        with self._lock:
            while closed < count and self._open:
                closed += self._close_one()
        return closed

    def _close_one(self) -> bool:
        looks = min(_LOOKS, len(self._open))
        while self._open:
            key, size = self._open.popitem(last=False)
            segment = key()
            if segment is None:
                return True  # closed with the segment itself
            looks -= 1
            if segment.size != size and looks > 0:
                self._open[key] = segment.size
                continue
            segment.file = None
            return True
        return False

    def _forget(self, key: ref[LogSegment]) -> None:
        self._open.pop(key, None)


active_files = ActiveFiles()
