"""Ports for servers that are started a little later, and started again on the same port."""

from __future__ import annotations

import random
import socket
from itertools import cycle, islice

# Below those that systems give to outgoing connections: one of these would be taken when its server comes.
_FIRST, _LAST = 12_000, 32_000

_begin = random.SystemRandom().randrange(_LAST - _FIRST)  # of each process somewhere else
_candidates = islice(cycle(range(_FIRST, _LAST)), _begin, None)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, each another one, and none that was handed out lately."""
    found: list[int] = []
    while len(found) < count:
        port = next(_candidates)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    return found
