"""Is a part of a file in memory? The event loop asks before it would wait for the disk."""

from __future__ import annotations

import errno
import os

_PROBE = bytearray(1)
_READ_BYTES = 128 * 1024
_supported = hasattr(os, "RWF_NOWAIT")


def is_in_memory(fd: int, position: int, size: int) -> bool:
    """Look at the first and the last byte; files that cannot be asked are taken to be in memory."""
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
    """The bytes, or None if the disk would have to be waited for."""
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
    """Bring it into memory, in a thread that may wait."""
    end = position + size
    while position < end:
        os.pread(fd, min(_READ_BYTES, end - position), position)
        position += _READ_BYTES
