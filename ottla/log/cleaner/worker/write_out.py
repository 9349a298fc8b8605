"""Start kernel write-out early, without the journal commit of an fsync.

A commit delays all writers on the same file system, including the broker's appends. The final fsync of a segment is
short if its data is already on disk.
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
    """Start writing a range to disk, without waiting."""
    if _sync_file_range is not None:
        _sync_file_range(fd, position, size, _WRITE)


def wait_for_write_out(path: str) -> None:
    """Write all data of a file to disk and wait. Only fsync makes it durable."""
    if _sync_file_range is None:
        return
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _sync_file_range(fd, 0, 0, _WAIT_BEFORE | _WRITE | _WAIT_AFTER)
    finally:
        os.close(fd)
