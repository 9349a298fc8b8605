"""A tmpfs of a few kilobytes that a test can fill."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        """Fill the disk to the last byte."""
        with contextlib.suppress(OSError), open(self.path / "filler", "ab", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass

    def free(self) -> None:
        (self.path / "filler").unlink()

    def resize(self, size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.path)], check=True)


@contextlib.contextmanager
def small_disk(path: Path, size: str) -> Iterator[SmallDisk]:
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs: run it as root")
    try:
        yield SmallDisk(path)
    finally:
        # A stopping process may hold a file open for a moment.
        subprocess.run(["umount", "--lazy", str(path)], check=True)
