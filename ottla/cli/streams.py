"""stdout and stderr that cannot be written: closed from the start, a reader that has left, a disk that is full."""

from __future__ import annotations

import errno
import os
import sys


def ensure_open() -> None:
    """A stream that was closed before this process began is None in Python: write to nowhere instead."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def discard_output() -> None:
    """Nothing more will be written: keep the interpreter from complaining when it flushes at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())


def unwritable(error: OSError) -> str | None:
    """The sentence about output that a full disk, for example, does not take; None if it is another error."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return None
    return f"The output cannot be written: {error.strerror}."
