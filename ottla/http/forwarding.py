"""Forward a request to another server of the same kind, over persistent connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

import httptools

from ottla.http.messages import Request, Response

_MOST_IDLE = 16


class Peer(Protocol):
    """Address of another server. Hashable."""

    @property
    def scheme(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def url(self) -> str: ...


class Passed(NamedTuple):
    """A forwarded request. `target` is the path with its query."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""


class PeerUnreachable(Exception):
    """`was_sent` tells whether the peer may have executed the request nevertheless."""

    def __init__(self, message: str, *, was_sent: bool) -> None:
        super().__init__(message)
        self.was_sent = was_sent


class _Answer:
    """Callbacks of httptools."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body: list[bytes] = []
        self.is_complete = False
        self.parser: Any = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, data: bytes) -> None:
        self.body.append(data)

    def on_message_complete(self) -> None:
        self.status = self.parser.get_status_code()
        self.is_complete = True


_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Forwarder:
    """Forwards the request headers named in `headers`, and keeps the response headers in `kept`."""

    def __init__(
        self,
        tls: ssl.SSLContext | None,
        timeout: float,
        *,
        headers: Collection[str] = ("accept", "authorization", "content-type"),
        kept: Collection[str] = (),
    ) -> None:
        self._tls = tls
        self._timeout = timeout
        self._headers = tuple(headers)
        self._kept = tuple(kept)
        self._idle: dict[Peer, list[_Streams]] = {}

    async def close(self) -> None:
        for streams in self._idle.values():
            for _, writer in streams:
                writer.close()
        self._idle.clear()

    async def pass_on(
        self,
        peer: Peer,
        request: Request,
        body: bytes,
        *,
        query: str | None = None,
        marks: Mapping[str, str] | None = None,
    ) -> Response:
        """Forward a request. `query` replaces its own, and `marks` are additional headers."""
        query = request.query_string if query is None else query
        target = request.path + (f"?{query}" if query else "")
        headers = {name: request.headers[name] for name in self._headers if name in request.headers}
        return await self.send(peer, Passed(request.method, target, {**headers, **(marks or {})}, body))

    async def send(self, peer: Peer, passed: Passed) -> Response:
        """Raises PeerUnreachable."""
        message = _encode(peer, passed)
        idle = self._idle.setdefault(peer, [])
        while idle:
            # The peer may have closed this idle connection before it read any of the request.
            streams = idle.pop()
            if not streams[0].at_eof():
                try:
                    return await self._exchange(peer, streams, message)
                except PeerUnreachable:
                    continue
        return await self._exchange(peer, await self._connect(peer), message)

    async def _connect(self, peer: Peer) -> _Streams:
        tls = self._tls if peer.scheme == "https" else None
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.open_connection(peer.host, peer.port, ssl=tls)
        except (OSError, TimeoutError) as error:
            raise PeerUnreachable(f"{peer.url}: {error or 'no answer in time'}", was_sent=False) from None

    async def _exchange(self, peer: Peer, streams: _Streams, message: bytes) -> Response:
        reader, writer = streams
        answer = _Answer()
        try:
            async with asyncio.timeout(self._timeout * 2):
                writer.write(message)
                await writer.drain()
                while not answer.is_complete:
                    data = await reader.read(65536)
                    if not data:
                        raise ConnectionResetError("it was closed")
                    answer.parser.feed_data(data)
        except (OSError, TimeoutError, httptools.HttpParserError) as error:
            writer.close()
            reason = str(error) or "no answer in time"
            raise PeerUnreachable(f"{peer.url}: {reason}", was_sent=True) from None
        except BaseException:
            writer.close()
            raise
        idle = self._idle.setdefault(peer, [])
        if answer.parser.should_keep_alive() and len(idle) < _MOST_IDLE:
            idle.append(streams)
        else:
            writer.close()
        kept = {name: answer.headers[name] for name in self._kept if name in answer.headers}
        return Response(answer.status, b"".join(answer.body), answer.headers.get("content-type"), kept)


def _encode(peer: Peer, passed: Passed) -> bytes:
    host = f"[{peer.host}]" if ":" in peer.host else peer.host
    lines = [f"{passed.method} {passed.target} HTTP/1.1", f"Host: {host}:{peer.port}"]
    lines += [f"{name}: {value}" for name, value in passed.headers.items()]
    lines.append(f"Content-Length: {len(passed.body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace") + passed.body
