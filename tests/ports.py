"""Ports for commands that take several in a row."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

# Below what systems hand out by themselves (32,768 on Linux), so that no connection of another test is there by chance.
# Servers of ZooKeeper talk to each other a thousand ports above those of their clients.
_LOWEST, _HIGHEST = 20_000, 31_000
_ATTEMPTS = 1000


def ports_in_a_row(count: int) -> int:
    """The first of some ports that nobody uses now."""
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
