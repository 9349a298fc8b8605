"""Consecutive ports for commands that need several."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

# Below the ephemeral port range (from 32,768 on Linux), so that no other test's connection uses them by chance.
# ZooKeeper servers talk to each other a thousand ports above their client ports.
_LOWEST, _HIGHEST = 20_000, 31_000
_ATTEMPTS = 1000


def ports_in_a_row(count: int) -> int:
    """Return the first of several consecutive free ports."""
    for _ in range(_ATTEMPTS):
        first = random.randrange(_LOWEST, _HIGHEST - count)
        try:
            with ExitStack() as probes:
                for port in range(first, first + count):
                    probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise RuntimeError(f"there are no {count} free ports in a row")
