"""Check whether part of a file is in memory, before the event loop would wait for the disk."""

from __future__ import annotations

import errno
import os

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
