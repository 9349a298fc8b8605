"""Limit and distribution of file descriptors.

Half of them are for active logs, some for reads of sealed segments, and most of the rest for connections. This limits
the files open at one time, not the number of partitions and segments.
"""

from __future__ import annotations

import errno
import os
import resource
from contextlib import suppress

# For short-lived files and connections: indexes, checkpoints, the metadata store, other brokers.
_SPARE = 32
_UNLIMITED = 1 << 20
_PROBES = 8


def raise_limit() -> None:
    """Raise the soft limit to the hard limit. The soft limit protects programs that cannot handle more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # some systems grant less than promised
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else min(soft, _UNLIMITED)


def for_active_segments() -> int:
    return max(1, limit() // 2)


def for_sealed_segments() -> int:
    return max(1, min(64, limit() // 8))


def for_connections() -> int:
    """Return the maximum number of connections. Idle logs are closed to make room, but a few must stay open."""
    return max(1, limit() - limit() // 8 - for_sealed_segments() - _SPARE)


def ran_out(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def shortage() -> str:
    """Return advice for an operator whose broker has run out."""
    return (
        f"the broker has run out of file descriptors (it may have {limit()}): allow it more with `ulimit -n`, or with "
        "LimitNOFILE of its service, and start it again"
    )


def are_left() -> bool:
    """Return True if a few descriptors are available right now."""
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
