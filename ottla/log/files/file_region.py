"""Regions of segment files that remain readable while the log changes."""

from __future__ import annotations

import os


class SegmentFile:
    """Owns one descriptor of a .log file, open as long as this object is referenced.

    A response being sent references it through its FileRegion, so deleting or rolling a segment never closes the
    descriptor of a running transfer. Owner: shared, immutable.
    """

    __slots__ = ("__weakref__", "fd", "path")

    def __init__(self, path: str, *, writable: bool, create: bool = False) -> None:
        self.fd = -1  # __del__ needs it even if the open fails
        flags = os.O_RDWR | os.O_APPEND if writable else os.O_RDONLY
        if create:
            flags |= os.O_CREAT
        self.fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
        self.path = path

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


class FileRegion:
    """`size` bytes of a segment from `position`, starting at a batch; the last batch may be incomplete."""

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
