"""What the testing kit can do to a broker's process while it runs: its clock is wrong, its disk is full.

Both sides share a small file in memory. The broker's side, `tampered_broker`, puts itself between the broker and the
system before the broker is loaded.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from struct import Struct

_STATE = Struct("=d?")  # seconds that the clock is ahead, and whether the disk is full


class Tampering:
    """What is wrong with one broker. The file outlives it: what is wrong stays so after a restart."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_STATE.pack(0.0, False))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _STATE.size)

    @property
    def skew(self) -> float:
        return float(_STATE.unpack_from(self._memory)[0])

    @skew.setter
    def skew(self, seconds: float) -> None:
        _STATE.pack_into(self._memory, 0, seconds, self.disk_full)

    @property
    def disk_full(self) -> bool:
        return bool(_STATE.unpack_from(self._memory)[1])

    @disk_full.setter
    def disk_full(self, full: bool) -> None:
        _STATE.pack_into(self._memory, 0, self.skew, full)

    def close(self) -> None:
        self._memory.close()
