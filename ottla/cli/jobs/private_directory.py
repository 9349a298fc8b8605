"""Directories and files that only their owner can read: the data of a broker that was started with --secure."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ottla.cli.errors import JobError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
#: One of these says that a directory is the broker's own.
_SIGNS = ("meta.properties", "ottla-metadata.db", "broker-0")


@contextmanager
def private_files() -> Iterator[None]:
    """Let this process and its children create files that only their owner can read: segments, logs, ZooKeeper's."""
    before = os.umask(_OTHERS)
    try:
        yield
    finally:
        os.umask(before)


def close_to_others(directory: Path) -> bool:
    """Create a directory for its owner alone, or take access to it away from others. Return True if it was open.

    Raise JobError for a directory that is not the broker's own: others may need it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = directory.stat()
    except OSError as error:
        raise JobError(f"{directory} cannot be used for its data: {error.strerror}.") from None
    if not found.st_mode & _OTHERS:
        return False
    if found.st_mode & stat.S_ISVTX or not _is_ours(directory):
        raise JobError(
            f"Other users can open {directory}, and it has files that are not the broker's. Name a directory of its "
            f"own with --data, or run `chmod 700 {directory}`."
        )
    try:
        directory.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)
        # Others may have opened folders in there, and a copy keeps the modes of its files.
        for path in _below(directory):
            mode = path.stat().st_mode
            if mode & _OTHERS:
                path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    except OSError as error:
        raise JobError(
            f"Other users can open {directory}, and its mode cannot be changed ({error.strerror}): let its owner run "
            f"`chmod -R go= {directory}`."
        ) from None
    return True


def _is_ours(directory: Path) -> bool:
    names = {each.name for each in directory.iterdir()}
    return not names or not names.isdisjoint(_SIGNS)


def _below(directory: Path) -> Iterator[Path]:
    """Yield files and folders without following links."""
    for root, folders, files in os.walk(directory):
        for name in (*folders, *files):
            path = Path(root, name)
            with suppress(FileNotFoundError):
                if not path.is_symlink():
                    yield path
