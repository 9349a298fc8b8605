"""Open files: limits and sharing of descriptors, regions to send, and the page cache."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import suppress

# Limit and distribution of file descriptors.
#
# Half of them are for active logs, some for reads of sealed segments, and most of the rest for connections. This limits
# the files open at one time, not the number of partitions and segments.

# For short-lived files and connections: indexes, checkpoints, the metadata store, other brokers.
_SPARE = 32
_UNLIMITED = 1 << 20
_PROBES = 8


def raise_limit() -> None:
    """Raise the soft limit to the hard limit. The soft limit protects programs that cannot handle more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # some systems grant less than promised
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else min(soft, _UNLIMITED)


def for_active_segments() -> int:
    return max(1, limit() // 2)


def for_sealed_segments() -> int:
    return max(1, min(64, limit() // 8))


def for_connections() -> int:
    """Return the maximum number of connections. Idle logs are closed to make room, but a few must stay open."""
    return max(1, limit() - limit() // 8 - for_sealed_segments() - _SPARE)


def ran_out(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def shortage() -> str:
    """Return advice for an operator whose broker has run out."""
    return (
        f"the broker has run out of file descriptors (it may have {limit()}): allow it more with `ulimit -n`, or with "
        "LimitNOFILE of its service, and start it again"
    )


def are_left() -> bool:
    """Return True if a few descriptors are available right now."""
    opened: list[int] = []
    try:
        for _ in range(_PROBES):
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        for fd in opened:
            os.close(fd)
    return True


# Regions of segment files that remain readable while the log changes.


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


def in_memory(data: bytes) -> FileRegion:
    """Return a region of a file without a name, for data that did not come from a segment here."""
    fd = os.memfd_create("remote-records", os.MFD_CLOEXEC)
    file = SegmentFile.__new__(SegmentFile)
    file.fd, file.path = fd, ""
    done = 0
    while done < len(data):
        done += os.write(fd, data[done:])
    return FileRegion(file, 0, len(data))


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

# Check whether part of a file is in memory, before the event loop would wait for the disk.

_PROBE = bytearray(1)
_READ_BYTES = 128 * 1024
_supported = hasattr(os, "RWF_NOWAIT")


def is_in_memory(fd: int, position: int, size: int) -> bool:
    """Check the first and the last byte. Files that do not support the check count as in memory."""
    if not _supported:
        return True
    try:
        os.preadv(fd, [_PROBE], position + size - 1, os.RWF_NOWAIT)
        os.preadv(fd, [_PROBE], position, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError as error:
        _note(error)
    return True


def read_now(fd: int, position: int, size: int) -> bytes | bytearray | None:
    """Return the bytes, or None if reading would wait for the disk."""
    if _supported:
        data = bytearray(size)
        try:
            return data if os.preadv(fd, [data], position, os.RWF_NOWAIT) == size else None
        except BlockingIOError:
            return None
        except OSError as error:
            _note(error)
    return os.pread(fd, size, position)


def _note(error: OSError) -> None:
    global _supported
    if error.errno in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
        _supported = False


def read_through(fd: int, position: int, size: int) -> None:
    """Load the range into memory. Blocks; runs in a thread."""
    end = position + size
    while position < end:
        os.pread(fd, min(_READ_BYTES, end - position), position)
        position += _READ_BYTES
