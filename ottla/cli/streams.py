"""Unwritable stdout and stderr: closed streams, readers that have left, full disks."""

from __future__ import annotations

import errno
import os
import sys


def ensure_open() -> None:
    """Replace streams that were closed before the start, which are None in Python."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def discard_output() -> None:
    """Discard further output, so that the interpreter's final flush does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())


def unwritable(error: OSError) -> str | None:
    """Return a sentence about unwritable output, such as a full disk, or None for another error."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return None
    return f"The output cannot be written: {error.strerror}."
