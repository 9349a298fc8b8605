"""Slices of segment files that can be sent while the log goes on living."""

from __future__ import annotations

import os


class SegmentFile:
    """Owns one descriptor of a .log file: it is open exactly as long as somebody holds this object.

    A response that is being sent holds it through its FileRegion, so that deleting or rolling a segment never
    closes a descriptor under a running transfer. Owner: shared, immutable.
    """

    __slots__ = ("__weakref__", "fd", "path")

    def __init__(self, path: str, *, writable: bool, create: bool = False) -> None:
        self.fd = -1  # __del__ must find it even if the open fails
        flags = os.O_RDWR | os.O_APPEND if writable else os.O_RDONLY
        if create:
            flags |= os.O_CREAT
        self.fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
        self.path = path

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


class FileRegion:
    """`size` bytes of a segment from `position` on, starting at a batch; the last batch may be cut."""

    __slots__ = ("fd", "file", "position", "size")

    def __init__(self, file: SegmentFile | None, position: int, size: int) -> None:
        self.file = file
        self.fd = -1 if file is None else file.fd
        self.position = position
        self.size = size

    def read(self) -> bytes:
        return os.pread(self.fd, self.size, self.position) if self.size else b""

    def __len__(self) -> int:
        return self.size


EMPTY_REGION = FileRegion(None, 0, 0)
