"""A power cut, as the strictest reading of fsync allows it: only what was synced is there afterwards.

A file keeps the bytes it had at its last fsync, and is found only under names that its directory had when that was
synced last. Real file systems keep more; a promise that holds here holds on all of them. The metadata store syncs by
itself, inside SQLite, and is taken as it is.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

_STORE = "ottla-metadata.db"


class PowerCut:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._fsync = os.fsync
        self._sizes: dict[int, int] = {}  # inode → bytes at its last fsync
        self._names: dict[int, dict[str, int]] = {}  # inode of a directory → what it held at its last fsync
        self.count = 0
        monkeypatch.setattr(os, "fsync", self._record)

    def _record(self, fd: int) -> None:
        self._fsync(fd)
        self.count += 1
        stat = os.fstat(fd)
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            self._names[stat.st_ino] = {
                entry.name: entry.inode() for entry in os.scandir(os.readlink(f"/proc/self/fd/{fd}"))
            }
        else:
            self._sizes[stat.st_ino] = stat.st_size

    def survivors(self, directory: Path, target: Path) -> Path:
        """What is left of a directory, copied to `target`; the broker may be running."""
        target.mkdir()
        synced = self._names.get(directory.stat().st_ino, {})
        for entry in os.scandir(directory):
            if entry.name.startswith(_STORE):
                shutil.copy(entry.path, target)
            elif synced.get(entry.name) != entry.inode():
                continue
            elif entry.is_dir():
                self.survivors(Path(entry.path), target / entry.name)
            else:
                data = Path(entry.path).read_bytes()
                (target / entry.name).write_bytes(data[: self._sizes.get(entry.inode(), 0)])
        return target
