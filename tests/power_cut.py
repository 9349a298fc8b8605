"""A power cut under the strictest reading of fsync: only synced data survives.

A file keeps its bytes as of its last fsync, and only the names that its directory had at the directory's last fsync.
Real file systems keep more, so a promise that holds here holds on all of them. The metadata store syncs itself, inside
SQLite, and is copied unchanged.
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
        self._names: dict[int, dict[str, int]] = {}  # directory inode → entries at its last fsync
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
        """Copy the surviving part of a directory to `target`; the broker may be running."""
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
