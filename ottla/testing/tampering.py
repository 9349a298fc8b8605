"""Faults for a running broker process: a wrong clock, a full disk, a broken disk.

Both sides map a small file into memory. The broker's side, `tampered_broker`, replaces functions of `os` and `time`
before the broker is loaded.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from pathlib import Path
from struct import Struct

# Clock offset in seconds, disk-full flag, and the failing directories.
_STATE = Struct("=d?4096s")


class Tampering:
    """Faults of one broker. The file outlives the process, so faults persist across restarts."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_STATE.pack(0.0, False, b""))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _STATE.size)

    @property
    def skew(self) -> float:
        return float(_STATE.unpack_from(self._memory)[0])

    @skew.setter
    def skew(self, seconds: float) -> None:
        self._change(skew=seconds)

    @property
    def disk_full(self) -> bool:
        return bool(_STATE.unpack_from(self._memory)[1])

    @disk_full.setter
    def disk_full(self, full: bool) -> None:
        self._change(disk_full=full)

    @property
    def failing(self) -> tuple[str, ...]:
        """Directories whose reads and writes fail."""
        paths = _STATE.unpack_from(self._memory)[2].rstrip(b"\0").decode()
        return tuple(paths.split("\n")) if paths else ()

    @failing.setter
    def failing(self, paths: Iterable[str]) -> None:
        self._change(failing="\n".join(paths).encode())

    def _change(
        self, skew: float | None = None, disk_full: bool | None = None, failing: bytes | None = None
    ) -> None:
        before = _STATE.unpack_from(self._memory)
        wanted = (skew, disk_full, failing)
        after = [old if new is None else new for old, new in zip(before, wanted, strict=True)]
        _STATE.pack_into(self._memory, 0, *after)

    def close(self) -> None:
        self._memory.close()
