"""Open files of active and sealed segments: limited in number per process. Idle segments are closed first."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock, RLock
from typing import TYPE_CHECKING
from weakref import ref

from ottla.log.files import descriptors
from ottla.log.files.descriptors import SegmentFile

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


class SealedFiles:
    """Invariant: this cache keeps descriptors and indexes of at most `capacity` sealed segments.

    Regions being sent keep their own reference. Owner: the process; lookups by time may run in a thread, hence the
    lock.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._files: OrderedDict[LogSegment, SegmentFile] = OrderedDict()
        self._lock = Lock()

    def open(self, segment: LogSegment) -> SegmentFile:
        with self._lock:
            file = self._files.get(segment)
            if file is not None:
                self._files.move_to_end(segment)
                return file
        path = segment.path
        file = _open(path)
        if segment.path != path:  # renamed in the meantime; another segment may have that name now
            file = _open(segment.path)
        self.keep(segment, file)
        return file

    def peek(self, segment: LogSegment) -> SegmentFile | None:
        """Return the file if it is open."""
        return self._files.get(segment)

    def keep(self, segment: LogSegment, file: SegmentFile) -> None:
        with self._lock:
            self._files[segment] = file
            self._files.move_to_end(segment)
            while len(self._files) > self.capacity:
                evicted, _ = self._files.popitem(last=False)
                evicted.release()

    def drop(self, segment: LogSegment) -> None:
        with self._lock:
            self._files.pop(segment, None)


def _open(path: str) -> SegmentFile:
    try:
        return SegmentFile(path, writable=False)
    except OSError as error:
        if not descriptors.ran_out(error) or not active_files.close_idle():
            raise
        return SegmentFile(path, writable=False)


sealed_files = SealedFiles(descriptors.for_sealed_segments())
