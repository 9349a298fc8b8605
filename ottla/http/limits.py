"""Limits for clients, in bytes and seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    max_connections: int = 10_000
    # Names and values of all request headers, including the request line.
    max_header_bytes: int = 64 * 1024
    max_headers: int = 200
    # From the first byte of a request to the end of its headers, and from the connection to its first byte.
    header_seconds: float = 15.0
    # Between two requests.
    keep_alive_seconds: float = 75.0
    # Maximum time for a body, plus one second for each received kilobyte.
    body_seconds: float = 30.0
    # A client that reads nothing of its response for this long is gone.
    write_seconds: float = 60.0
    # Concurrent streams per HTTP/2 connection.
    max_streams: int = 200
    max_websocket_message: int = 8 * 1024 * 1024
    # Limit of the TLS handshake.
    handshake_seconds: float = 15.0
