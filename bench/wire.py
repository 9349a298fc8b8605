"""A raw client of Kafka's protocol: a socket, frames built by hand, and nothing that costs time.

The frames are written here rather than with Ottla's codec so that the bench measures the same bytes
against every broker and keeps working whatever the codec does.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import time

API_VERSIONS = 18


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def frame(api_key: int, version: int, correlation_id: int, body: bytes, *, flexible: bool) -> bytes:
    """A size-prefixed request; the client id is null and a flexible header carries no tagged fields."""
    header = struct.pack(">hhih", api_key, version, correlation_id, -1) + (b"\0" if flexible else b"")
    return struct.pack(">i", len(header) + len(body)) + header + body


API_VERSIONS_FRAME = frame(API_VERSIONS, 0, 1, b"", flexible=False)


def connect(host: str, port: int, *, timeout: float | None = 30) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def read_exactly(connection: socket.socket, size: int) -> bytes:
    chunks = bytearray()
    while len(chunks) < size:
        chunk = connection.recv(size - len(chunks))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        chunks += chunk
    return bytes(chunks)


def read_response(connection: socket.socket) -> bytes:
    """One response without its size: correlation id, header tags if any, body."""
    (size,) = struct.unpack(">i", read_exactly(connection, 4))
    return read_exactly(connection, size)


def ask_api_versions(connection: socket.socket) -> None:
    connection.sendall(API_VERSIONS_FRAME)
    response = read_response(connection)
    correlation_id, error = struct.unpack_from(">ih", response)
    if correlation_id != 1 or error != 0:
        raise ConnectionError(f"ApiVersions was answered with error {error}")


def wait_until_ready(
    host: str, port: int, process: subprocess.Popen[bytes] | None = None, *, timeout: float = 60
) -> None:
    """Return as soon as ApiVersions is answered; fail early when the process has ended."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            with connect(host, port, timeout=max(0.1, deadline - time.monotonic())) as connection:
                return ask_api_versions(connection)
        except OSError:
            if process is not None and process.poll() is not None:
                raise RuntimeError(f"the process ended with {process.returncode}") from None
            if time.monotonic() > deadline:
                raise TimeoutError(f"no ApiVersions answer from {host}:{port} in {timeout:.0f} s") from None
        time.sleep(0.005)
