"""Tell systemd that a server is ready or stops (sd_notify), for units with Type=notify."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def notify(state: str) -> None:
    """Send a state such as READY=1. Does nothing outside of such a unit."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(address.replace("@", "\0", 1) if address.startswith("@") else address)
        sender.sendall(state.encode())
