"""`.ottla`: marks a log directory used by Ottla, and lists the other directories of its broker."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ottla.log.files.checkpoint import replace_file

_MARK_FILE = ".ottla"


def mark(directory: str) -> None:
    """Mark the directory. An existing mark stays."""
    with open(os.path.join(directory, _MARK_FILE), "ab"):
        pass


def read_mark(directory: str) -> frozenset[str] | None:
    """Return the recorded directories, or None if Ottla has never used this one."""
    try:
        with open(os.path.join(directory, _MARK_FILE), encoding="utf-8", errors="surrogateescape") as file:
            return frozenset(file.read().splitlines())
    except FileNotFoundError:
        return None


def write_mark(directory: str, log_dirs: Iterable[str]) -> None:
    text = "".join(f"{each}\n" for each in log_dirs)
    replace_file(os.path.join(directory, _MARK_FILE), text.encode(errors="surrogateescape"))
