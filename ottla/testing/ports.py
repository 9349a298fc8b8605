"""Ports for processes that start later, and restart."""

from __future__ import annotations

import os
import socket
import sys
import weakref
from collections.abc import Iterable

# Only Linux lets a process listen on a port that another one has bound without listening.
_CAN_HOLD = sys.platform == "linux"


class ReservedPorts:
    """Free ports that the system does not assign to others while this object exists.

    A process that requests one by number gets it.
    """

    def __init__(self, count: int) -> None:
        sockets = [_bound_port() for _ in range(count)]
        self.numbers: list[int] = [each.getsockname()[1] for each in sockets]
        if _CAN_HOLD:
            weakref.finalize(self, _close, [each.detach() for each in sockets])
        else:
            for each in sockets:
                each.close()


def free_ports(count: int) -> list[int]:
    """Return distinct ports that are currently free."""
    return ReservedPorts(count).numbers


def _bound_port() -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind(("127.0.0.1", 0))
    return found


def _close(descriptors: Iterable[int]) -> None:
    for each in descriptors:
        os.close(each)
