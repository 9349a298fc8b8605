"""`python -m ottla.testing.tampered_broker FILE start …`: the command line of Ottla, with a clock and a disk that the
testing kit can put wrong through that file.
"""

from __future__ import annotations

import errno
import os
import runpy
import stat
import sys
import time
from pathlib import Path
from typing import Any

from ottla.testing.tampering import Tampering


def shift_clock(tampering: Tampering) -> None:
    """The wall clock is off. Nobody can set the monotonic one."""
    seconds, nanoseconds = time.time, time.time_ns
    time.time = lambda: seconds() + tampering.skew
    time.time_ns = lambda: nanoseconds() + int(tampering.skew * 1e9)


def limit_disk(tampering: Tampering) -> None:
    """No file takes any more bytes while the disk is full; sockets and pipes do."""
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


if __name__ == "__main__":
    wrong = Tampering(Path(sys.argv.pop(1)))
    shift_clock(wrong)
    limit_disk(wrong)
    runpy.run_module("ottla", run_name="__main__", alter_sys=True)
