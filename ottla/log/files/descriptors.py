"""How many file descriptors the process may have, and how they are shared out.

Half of them are for the logs that are appended to, some for sealed segments that are read, and most of the rest for
connections. What is open at one moment is bounded by that; how many partitions and segments there are is not.
"""

from __future__ import annotations

import errno
import os
import resource
from contextlib import suppress

# For everything that is opened for a moment: indexes, checkpoints, the metadata store, connections to other brokers.
_SPARE = 32
_UNLIMITED = 1 << 20
_PROBES = 8


def raise_limit() -> None:
    """Take all that the system allows: the soft limit is for programs that cannot deal with more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # some systems give less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else min(soft, _UNLIMITED)


def for_active_segments() -> int:
    return max(1, limit() // 2)


def for_sealed_segments() -> int:
    return max(1, min(64, limit() // 8))


def for_connections() -> int:
    """Idle logs are closed to make room for connections, but a few must be left open to be worked with."""
    return max(1, limit() - limit() // 8 - for_sealed_segments() - _SPARE)


def ran_out(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def shortage() -> str:
    """What to tell an operator whose broker has run out."""
    return (
        f"the broker has run out of file descriptors (it may have {limit()}): allow it more with `ulimit -n`, or with "
        "LimitNOFILE of its service, and start it again"
    )


def are_left() -> bool:
    """Whether a few can be had right now."""
    opened: list[int] = []
    try:
        for _ in range(_PROBES):
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        for fd in opened:
            os.close(fd)
    return True
