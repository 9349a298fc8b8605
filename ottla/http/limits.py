"""What a client may ask of the server, in bytes and seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    max_connections: int = 10_000
    # Names and values of all headers of a request, with its request line.
    max_header_bytes: int = 64 * 1024
    max_headers: int = 200
    # From the first byte of a request to the end of its headers, and from the connection to its first byte.
    header_seconds: float = 15.0
    # Between two requests.
    keep_alive_seconds: float = 75.0
    # A body may take this long, and then a second more for each kilobyte that has arrived.
    body_seconds: float = 30.0
    # A client that takes nothing of its response for so long is gone.
    write_seconds: float = 60.0
    # Of one HTTP/2 connection at once.
    max_streams: int = 200
    max_websocket_message: int = 8 * 1024 * 1024
    # A handshake that never ends is one, too.
    handshake_seconds: float = 15.0
