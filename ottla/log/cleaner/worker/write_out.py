"""Has the kernel write out data early, without the journal commit that an fsync means.

A commit holds up everybody who writes to the same file system, the broker's appends included. With the data on
disk already, the fsync at the end of a segment has little left to do.
"""

from __future__ import annotations

import ctypes
import os

_WAIT_BEFORE, _WRITE, _WAIT_AFTER = 1, 2, 4


def _load() -> ctypes._NamedFuncPointer | None:
    try:
        function = ctypes.CDLL(None, use_errno=True).sync_file_range
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    function.restype = ctypes.c_int
    return function


_sync_file_range = _load()


def start_write_out(fd: int, position: int, size: int) -> None:
    """Begin to write a range to the disk, and do not wait for it."""
    if _sync_file_range is not None:
        _sync_file_range(fd, position, size, _WRITE)


def wait_for_write_out(path: str) -> None:
    """Have all data of a file on its way to the disk and there. Only fsync makes it durable."""
    if _sync_file_range is None:
        return
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _sync_file_range(fd, 0, 0, _WAIT_BEFORE | _WRITE | _WAIT_AFTER)
    finally:
        os.close(fd)
