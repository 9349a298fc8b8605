"""Open sealed segments: the most recently read ones, limited in number per process."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

from ottla.log.files import descriptors
from ottla.log.files.file_region import SegmentFile
from ottla.log.segments.active_files import active_files

if TYPE_CHECKING:
    from ottla.log.segments.segment import LogSegment


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
