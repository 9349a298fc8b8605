"""Locks that detect two simultaneous runs, across processes."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path


class Lock:
    """A lock that the kernel releases when its process ends, for whatever reason. A failed attempt leaves a note."""

    def __init__(self, directory: Path, name: str) -> None:
        self._file = open(directory / f"{name}.lock", "w")  # noqa: SIM115  kept open
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with open(directory / "violations", "a") as found:
                found.write(f"{time.time():.3f} {name} was started by {os.getpid()} while it ran elsewhere\n")

    def release(self) -> None:
        self._file.close()


def violations(directory: Path) -> str:
    file = directory / "violations"
    return file.read_text() if file.exists() else ""
