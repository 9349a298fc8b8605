"""Which active segments are open: a bounded number in the whole process. Those of idle partitions are closed first."""

from __future__ import annotations

from collections import OrderedDict
from threading import RLock
from typing import TYPE_CHECKING
from weakref import ref

from ottla.log.files import descriptors
from ottla.log.files.file_region import SegmentFile

if TYPE_CHECKING:
    from ottla.log.segments.segment import LogSegment

# A segment that was appended to since it was last looked at is passed over; so many of them in a row at most.
_LOOKS = 64
_AT_ONCE = 16


class ActiveFiles:
    """Invariant: about `capacity` active segments have a descriptor at most, and one that has none opens its file again
    when it is used. An append or a read of an open one does not come here.

    Regions that are being sent hold their file themselves. Owner: the process; logs are opened in threads, hence the
    lock.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self._capacity = capacity
        # With the size that each had when it was last looked at, the longest ago first. Weak: a log that is dropped
        # without being closed, as in a crash, gives back its descriptors.
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
        """Open the file for appends; some other one may be closed for it."""
        self.drop(segment)
        self.close_idle(len(self._open) + 1 - self.capacity)
        # Without the lock: a disk that hangs must not stop the logs of others.
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
        """Close so many files, of those that were not appended to for the longest; how many were closed."""
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
