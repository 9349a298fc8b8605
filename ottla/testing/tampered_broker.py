"""`python -m ottla.testing.tampered_broker FILE start …`: Ottla's command line with a clock and a disk that the testing
kit can disturb through that file.
"""

from __future__ import annotations

import builtins
import errno
import os
import runpy
import stat
import sys
import time
from pathlib import Path
from typing import Any

from ottla.testing.tampering import Tampering

_ASKED_OF_FILES = (
    *("open", "write", "pwrite", "pread", "preadv", "fsync", "ftruncate", "truncate"),
    *("rename", "replace", "unlink", "mkdir", "listdir", "scandir", "statvfs"),
)


def shift_clock(tampering: Tampering) -> None:
    """Shift the wall clock. The monotonic clock stays right, as on a real machine."""
    seconds, nanoseconds = time.time, time.time_ns
    time.time = lambda: seconds() + tampering.skew
    time.time_ns = lambda: nanoseconds() + int(tampering.skew * 1e9)


def limit_disk(tampering: Tampering) -> None:
    """Make file writes fail while the disk is full; sockets and pipes still work."""
    write, pwrite = os.write, os.pwrite

    def check(fd: int) -> None:
        if tampering.disk_full and stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def limited_write(fd: int, data: Any) -> int:
        check(fd)
        return write(fd, data)

    def limited_pwrite(fd: int, data: Any, offset: int) -> int:
        check(fd)
        return pwrite(fd, data, offset)

    os.write, os.pwrite = limited_write, limited_pwrite


def break_disk(tampering: Tampering) -> None:
    """Make every operation on files of a failing directory end in an I/O error."""

    def check(file: Any) -> None:
        failing = tampering.failing
        if failing:
            path = os.readlink(f"/proc/self/fd/{file}") if isinstance(file, int) else os.fspath(file)
            if any(f"{path}/".startswith(f"{directory}/") for directory in failing):
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    def checked(call: Any) -> Any:
        def run(file: Any, *arguments: Any, **options: Any) -> Any:
            check(file)
            return call(file, *arguments, **options)

        return run

    sendfile = os.sendfile

    def checked_sendfile(out_fd: int, in_fd: int, offset: int | None, count: int) -> int:
        check(in_fd)
        return sendfile(out_fd, in_fd, offset, count)

    os.sendfile = checked_sendfile
    for name in _ASKED_OF_FILES:
        setattr(os, name, checked(getattr(os, name)))
    builtins.open = checked(open)


if __name__ == "__main__":
    wrong = Tampering(Path(sys.argv.pop(1)))
    shift_clock(wrong)
    limit_disk(wrong)
    break_disk(wrong)
    runpy.run_module("ottla", run_name="__main__", alter_sys=True)
