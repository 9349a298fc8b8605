"""Bytes on a socket: requests that no client would send."""

from __future__ import annotations

import socket
import struct
from types import TracebackType

CLIENT_ID = b"conformance"


class Wire:
    """A connection to the first broker in the list.

    Requests are bytes; responses come back without their length.
    """

    def __init__(self, bootstrap: str, timeout: float = 15.0) -> None:
        host, _, port = bootstrap.partition(",")[0].rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout)

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()

    def send(self, key: int, version: int, body: bytes = b"", *, correlation: int = 7) -> None:
        """Send a request with header v1; `body` starts with the header's tagged fields, if any."""
        header = struct.pack(f">hhih{len(CLIENT_ID)}s", key, version, correlation, len(CLIENT_ID), CLIENT_ID)
        self.send_frame(header + body)

    def send_frame(self, frame: bytes) -> None:
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def send_raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> bytes | None:
        """Return the next response, or None if the broker has closed the connection."""
        try:
            size = self._read(4)
            return None if size is None else self._read(struct.unpack(">i", size)[0])
        except ConnectionResetError:
            return None

    def _read(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                return None
            data += chunk
        return data
