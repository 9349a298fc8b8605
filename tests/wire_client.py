"""A client that sends one request in the version given by the test, and reads its response."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Self

from ottla.protocol.codec import Request, Response
from ottla.protocol.messages import response_type


class WireClient:
    def __init__(self, bootstrap_servers: str, timeout: float = 20) -> None:
        host, port = bootstrap_servers.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)
        self._correlation_id = 0

    def send(self, request: Request, version: int | None = None) -> int:
        version = request.versions[1] if version is None else version
        self._correlation_id += 1
        header = struct.pack(">hhih", request.api_key, version, self._correlation_id, 4) + b"test"
        if request.is_flexible(version):
            header += b"\0"
        body = header + request.encode(version)
        self.socket.sendall(struct.pack(">i", len(body)) + body)
        return self._correlation_id

    def receive(
        self, request: Request, version: int | None = None, correlation_id: int | None = None
    ) -> Response:
        version = request.versions[1] if version is None else version
        data = self.receive_frame(correlation_id)
        answer = response_type(request.api_key)
        return answer.decode(data, version, 4 + answer.header_version(version))

    def receive_frame(self, correlation_id: int | None = None) -> bytes:
        """Return a raw response, with its correlation id in the first four bytes."""
        size = struct.unpack(">i", self._exactly(4))[0]
        data = self._exactly(size)
        assert struct.unpack_from(">i", data)[0] == (correlation_id or self._correlation_id)
        return data

    def call(self, request: Request, version: int | None = None) -> Response:
        self.send(request, version)
        return self.receive(request, version)

    def is_closed(self) -> bool:
        """Wait for the broker to close the connection."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the broker hung up")
            data += piece
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()
