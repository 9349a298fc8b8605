"""Passing a request on to the leader, over connections that are kept."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import httptools

from ottla.http import Request, Response
from ottla.registry.election.protocol import Identity

#: Marks a request that has been passed on: it is not passed on again.
FORWARDED = "x-forward"
#: The offset up to which the leader has read the log, so that what it has done can be read on this node as well.
READ_UNTIL = "x-read-until"
_PASSED_ON = (
    "accept",
    "authorization",
    "content-type",
    "confluent-accept-unknown-properties",
    "confluent-client-version",
    "x-confluent-client-id",
)
_MOST_IDLE = 16


class LeaderUnreachable(Exception):
    """`was_sent` tells whether the leader may have done it all the same."""

    def __init__(self, message: str, *, was_sent: bool) -> None:
        super().__init__(message)
        self.was_sent = was_sent


class _Answer:
    """What httptools calls back."""

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
    def __init__(self, tls: ssl.SSLContext | None, timeout: float) -> None:
        self._tls = tls
        self._timeout = timeout
        self._idle: dict[Identity, list[_Streams]] = {}

    async def close(self) -> None:
        for streams in self._idle.values():
            for _, writer in streams:
                writer.close()
        self._idle.clear()

    async def send(self, leader: Identity, request: Request, body: bytes) -> Response:
        message = _encode(leader, request, body)
        idle = self._idle.setdefault(leader, [])
        while idle:
            # The leader may have closed it meanwhile, before it has read any of this.
            streams = idle.pop()
            if not streams[0].at_eof():
                try:
                    return await self._exchange(leader, streams, message)
                except LeaderUnreachable:
                    continue
        return await self._exchange(leader, await self._connect(leader), message)

    async def _connect(self, leader: Identity) -> _Streams:
        tls = self._tls if leader.scheme == "https" else None
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.open_connection(leader.host, leader.port, ssl=tls)
        except (OSError, TimeoutError) as error:
            raise LeaderUnreachable(f"{leader.url}: {error or 'no answer in time'}", was_sent=False) from None

    async def _exchange(self, leader: Identity, streams: _Streams, message: bytes) -> Response:
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
            raise LeaderUnreachable(f"{leader.url}: {reason}", was_sent=True) from None
        except BaseException:
            writer.close()
            raise
        idle = self._idle.setdefault(leader, [])
        if answer.parser.should_keep_alive() and len(idle) < _MOST_IDLE:
            idle.append(streams)
        else:
            writer.close()
        kept = {name: answer.headers[name] for name in (READ_UNTIL,) if name in answer.headers}
        return Response(answer.status, b"".join(answer.body), answer.headers.get("content-type"), kept)


def _encode(leader: Identity, request: Request, body: bytes) -> bytes:
    target = request.path + (f"?{request.query_string}" if request.query_string else "")
    host = f"[{leader.host}]" if ":" in leader.host else leader.host
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {host}:{leader.port}", "X-Forward: true"]
    lines += [f"{name}: {request.headers[name]}" for name in _PASSED_ON if name in request.headers]
    lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace") + body
