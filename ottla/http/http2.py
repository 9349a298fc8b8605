"""HTTP/2 on a connection."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator
from typing import Any, Protocol

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from ottla.http.dispatch import log_failure
from ottla.http.messages import Body, ClientDisconnected, HttpError, Request, Response
from ottla.http.shared import Client, Shared, check_header

# State of one HTTP/2 stream, and of incoming frames. Without sockets.

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME_HEADER, _MAX_FRAME = 9, 16384


class Windows(Protocol):
    """The connection, as seen by a stream."""

    def acknowledge(self, number: int, count: int) -> None:
        """Let the client send more, because the handler has read `count` bytes."""


class FrameLengths:
    """Checks frame lengths early: h2 buffers a whole frame, up to 16 MB, before it rejects one as too long."""

    __slots__ = ("_begun", "_skip")

    def __init__(self) -> None:
        self._skip = len(PREFACE)
        self._begun = b""

    def too_long(self, data: bytes) -> bool:
        position = 0
        while position < len(data):
            if self._skip:
                step = min(self._skip, len(data) - position)
                self._skip -= step
                position += step
                continue
            missing = _FRAME_HEADER - len(self._begun)
            self._begun += data[position : position + missing]
            position += missing
            if len(self._begun) == _FRAME_HEADER:
                self._skip = int.from_bytes(self._begun[:3])
                self._begun = b""
                if self._skip > _MAX_FRAME:
                    return True
        return False


class Stream:
    __slots__ = (
        "answered_at",
        "blocked_since",
        "body",
        "connection",
        "number",
        "request",
        "task",
        "window",
    )

    def __init__(self, connection: Windows, number: int, body: Body | None = None) -> None:
        self.connection = connection
        self.number = number
        self.body = body or Body(self)
        self.request: Request | None = None
        self.task: asyncio.Task[None] | None = None
        self.window: asyncio.Future[None] | None = None
        self.blocked_since: float | None = None
        self.answered_at: float | None = None  # further bytes from the client are discarded

    def body_wanted(self) -> None:
        pass

    def body_read(self, count: int, buffered: int) -> None:
        self.connection.acknowledge(self.number, count)

    def wake(self) -> None:
        if self.window is not None and not self.window.done():
            self.window.set_result(None)


# An HTTP/2 connection: frames and windows by h2, and one task per stream.
#
# Invariant: flow control windows bound a client's memory use, and grow only as handlers read; `Limits.max_streams` and
# `_MAX_RESETS` bound the work that a client can cause. Owner: the event loop.

_STREAM_WINDOW = 256 * 1024
_CONNECTION_WINDOW = 4 * 1024 * 1024
# Streams that a client may open and reset before it is disconnected: CVE-2023-44487.
_MAX_RESETS = 500
# Time for a client to send the rest of a refused body.
_DISCARD_SECONDS = 10.0


class Http2Connection(asyncio.Protocol):
    def __init__(self, shared: Shared, client: Client, transport: asyncio.Transport) -> None:
        self._shared = shared
        self._client = client
        self._transport = transport
        config = h2.config.H2Configuration(client_side=False, header_encoding="latin-1")
        self._wire = h2.connection.H2Connection(config)
        self._wire.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: shared.limits.max_streams,
                h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: shared.limits.max_header_bytes,
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW,
            },
        )
        self._lengths = FrameLengths()
        self._streams: dict[int, Stream] = {}
        self._writable: asyncio.Future[None] | None = None
        self._blocked_since: float | None = None
        self._idle_since = shared.loop.time()
        self._resets = 0
        self._closing = False
        self._lost = False

    def begin(self) -> None:
        self._wire.initiate_connection()
        self._wire.increment_flow_control_window(_CONNECTION_WINDOW)
        self._flush()

    def begin_upgraded(self, request: Request) -> None:
        """Start with the request that sent `Upgrade: h2c` as the first stream."""
        self._transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
        )
        self._wire.initiate_upgrade_connection(request.headers["http2-settings"].encode("latin-1"))
        self._wire.increment_flow_control_window(_CONNECTION_WINDOW)
        self._flush()
        stream = Stream(self, 1, Body())
        self._streams[1] = stream
        self._start(stream, request)

    # -- transport --

    def data_received(self, data: bytes) -> None:
        if self._lengths.too_long(data):
            self._wire.close_connection(h2.errors.ErrorCodes.FRAME_SIZE_ERROR)
            self._flush()
            self._close()
            return
        try:
            events = self._wire.receive_data(data)
        except h2.exceptions.ProtocolError:
            self._flush()  # h2 has queued the reason
            self._close()
            return
        except Exception as error:  # h2 raises some foreign errors on hostile frames
            log_failure(None, error)
            self._close()
            return
        for event in events:
            self._handle(event)
            if self._closing and not self._streams:
                break
        self._flush()

    def _handle(self, event: Any) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self._request_received(event)
        elif isinstance(event, h2.events.DataReceived):
            stream = self._streams.get(event.stream_id)
            # Padding counts toward the window, and no handler reads it.
            padding = event.flow_controlled_length - len(event.data)
            if stream is None or stream.body.ended or stream.answered_at is not None:
                self.acknowledge(event.stream_id, event.flow_controlled_length)
            else:
                if event.data:
                    stream.body.feed(event.data)
                self.acknowledge(event.stream_id, padding)
        elif isinstance(event, h2.events.StreamEnded):
            stream = self._streams.get(event.stream_id)
            if stream is not None:
                stream.body.end()
                if stream.answered_at is not None:
                    self._remove(stream)
        elif isinstance(event, h2.events.StreamReset):
            self._resets += 1
            self._drop(event.stream_id)
            if self._resets > _MAX_RESETS:
                self._wire.close_connection(h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
                self._flush()
                self._close()
        elif isinstance(event, h2.events.WindowUpdated):
            if event.stream_id:
                stream = self._streams.get(event.stream_id)
                if stream is not None:
                    stream.wake()
            else:
                self._wake_all()
        elif isinstance(event, h2.events.RemoteSettingsChanged):
            self._wake_all()
        elif isinstance(event, h2.events.ConnectionTerminated):
            self._closing = True
            self._close_if_idle()

    def _wake_all(self) -> None:
        for stream in self._streams.values():
            stream.wake()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = self._closing = True
        self._shared.connections.discard(self)
        self.resume_writing()
        for number in list(self._streams):
            self._drop(number)

    def pause_writing(self) -> None:
        if self._writable is None:
            self._writable = self._shared.loop.create_future()
            self._blocked_since = self._shared.loop.time()
            # The client sends without reading: answers to pings and settings would pile up here.
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._writable is not None:
            if not self._writable.done():
                self._writable.set_result(None)
            self._writable = self._blocked_since = None
            if not self._lost:
                self._transport.resume_reading()

    def _flush(self) -> None:
        data = self._wire.data_to_send()
        if data and not self._lost:
            self._transport.write(data)

    # -- server --

    def check_deadlines(self, now: float) -> None:
        limits = self._shared.limits
        if self._blocked_since is not None and now - self._blocked_since > limits.write_seconds:
            self._transport.abort()
            return
        for stream in list(self._streams.values()):
            stream.body.expire(now)
            if stream.blocked_since is not None and now - stream.blocked_since > limits.write_seconds:
                self._reset(stream.number, h2.errors.ErrorCodes.CANCEL)
                self._drop(stream.number)
            elif stream.answered_at is not None and now - stream.answered_at > _DISCARD_SECONDS:
                self._reset(stream.number, h2.errors.ErrorCodes.NO_ERROR)
                self._remove(stream)
        if not self._streams and now - self._idle_since > limits.keep_alive_seconds:
            self._wire.close_connection()
            self._flush()
            self._close()

    def stop(self) -> bool:
        if not self._closing:
            self._closing = True
            self._wire.close_connection(last_stream_id=max(self._streams, default=0))
            self._flush()
        return self._close_if_idle()

    def abort(self) -> None:
        for stream in list(self._streams.values()):
            if stream.task is not None:
                stream.task.cancel()
        self._transport.abort()

    def _close_if_idle(self) -> bool:
        if self._streams:
            return False
        self._close()
        return True

    def _close(self) -> None:
        self._closing = True
        self._transport.close()

    # -- streams --

    def _request_received(self, event: Any) -> None:
        if self._closing or self._shared.stopping:
            self._reset(event.stream_id, h2.errors.ErrorCodes.REFUSED_STREAM)
            return
        headers: dict[str, str] = {}
        special: dict[str, str] = {}
        for name, value in event.headers:
            if name.startswith(":"):
                special[name] = value
            elif name in headers:
                headers[name] = f"{headers[name]}{'; ' if name == 'cookie' else ', '}{value}"
            else:
                headers[name] = value
        headers.setdefault("host", special.get(":authority", ""))
        stream = Stream(self, event.stream_id)
        length = headers.get("content-length", "")
        stream.body.length = int(length) if length.isascii() and length.isdigit() else None
        if event.stream_ended is not None:
            stream.body.end()
        self._streams[event.stream_id] = stream
        client = self._client
        request = Request(
            special.get(":method", ""),
            special.get(":path", ""),
            headers,
            stream.body,
            http_version="2",
            peer=client.peer,
            principal=client.principal,
            tls_name=client.tls_name,
            max_body=self._shared.max_body,
            body_seconds=self._shared.limits.body_seconds,
        )
        self._start(stream, request)

    def _start(self, stream: Stream, request: Request) -> None:
        stream.request = request
        stream.task = self._shared.loop.create_task(self._answer(stream, request))
        self._shared.keep(stream.task)

    async def _answer(self, stream: Stream, request: Request) -> None:
        streamed: AsyncIterator[bytes] | None = None
        response: Response | None = None
        try:
            result = self._shared.dispatcher.respond(request)
            response = result if isinstance(result, Response) else await result
            body = response.body
            if not isinstance(body, bytes):
                streamed = body
            await self._send(stream, request, response)
        except (ClientDisconnected, asyncio.CancelledError):
            self._reset(stream.number, h2.errors.ErrorCodes.CANCEL)
        except h2.exceptions.ProtocolError:
            pass  # the client has reset the stream
        except Exception as error:
            log_failure(request, error)
            self._reset(stream.number, h2.errors.ErrorCodes.INTERNAL_ERROR)
        finally:
            close = getattr(streamed, "aclose", None)
            if close is not None:
                await close()
            if response is not None and response.on_close is not None:
                response.on_close()
            self._finish(stream)

    async def _send(self, stream: Stream, request: Request, response: Response) -> None:
        if self._streams.get(stream.number) is not stream:
            return
        body = response.body
        headers = [(":status", str(response.status)), ("date", self._shared.date)]
        if response.content_type is not None and response.has_body:
            headers.append(("content-type", response.content_type))
        for name, value in (response.headers or {}).items():
            check_header(name, value)
            headers.append((name.lower(), value))
        if isinstance(body, bytes) and response.has_body:
            headers.append(("content-length", str(len(body))))
        empty = request.method == "HEAD" or not response.has_body or body == b""
        self._wire.send_headers(stream.number, headers, end_stream=empty)
        self._flush()
        if empty:
            return
        if isinstance(body, bytes):
            await self._send_data(stream, body, last=True)
            return
        async for part in body:
            if part:
                await self._send_data(stream, part, last=False)
        self._wire.end_stream(stream.number)
        self._flush()

    async def _send_data(self, stream: Stream, data: bytes, *, last: bool) -> None:
        view = memoryview(data)
        while view:
            room = min(
                self._wire.local_flow_control_window(stream.number), self._wire.max_outbound_frame_size
            )
            if room <= 0:
                stream.blocked_since = self._shared.loop.time()
                stream.window = self._shared.loop.create_future()
                try:
                    await stream.window
                finally:
                    stream.window = stream.blocked_since = None
                continue
            part, view = view[:room], view[room:]
            self._wire.send_data(stream.number, part.tobytes(), end_stream=last and not view)
            self._flush()
            if self._writable is not None:
                await asyncio.shield(self._writable)

    def _finish(self, stream: Stream) -> None:
        if self._streams.get(stream.number) is not stream:
            return
        if stream.body.buffered:
            self.acknowledge(stream.number, stream.body.buffered)
        if stream.body.ended:
            self._remove(stream)
        else:
            # The response precedes the end of the request. Many clients read it only after sending everything.
            stream.answered_at = self._shared.loop.time()

    def _remove(self, stream: Stream) -> None:
        self._streams.pop(stream.number, None)
        self._idle_since = self._shared.loop.time()
        if self._resets:
            self._resets -= 1  # a client that lets streams finish is not attacking
        if self._closing and not self._lost:
            self._close_if_idle()

    def _drop(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is None:
            return
        stream.body.fail(ClientDisconnected("The client has closed the stream."))
        if stream.body.buffered:
            self.acknowledge(number, stream.body.buffered)
        if stream.task is not None:
            stream.task.cancel()

    def acknowledge(self, number: int, count: int) -> None:
        if count > 0 and not self._lost:
            try:
                self._wire.acknowledge_received_data(count, number)
            except (h2.exceptions.ProtocolError, KeyError, ValueError):
                return  # the stream or connection has ended
            self._flush()

    def _reset(self, number: int, code: Any) -> None:
        if self._lost:
            return
        try:
            self._wire.reset_stream(number, code)
        except h2.exceptions.ProtocolError:
            return
        self._flush()


def upgrade_to_http2(
    shared: Shared, client: Client, transport: asyncio.Transport, request: Request
) -> asyncio.Protocol:
    """Upgrade after an HTTP/1.1 request, whose settings may be malformed."""
    settings = request.headers["http2-settings"]
    connection = Http2Connection(shared, client, transport)
    try:
        base64.b64decode(settings + "=" * (-len(settings) % 4), altchars=b"-_", validate=True)
        connection.begin_upgraded(request)
    except (binascii.Error, ValueError, h2.exceptions.ProtocolError):
        refusal = shared.dispatcher.error(HttpError(400, 400, "HTTP2-Settings cannot be read."), request)
        body = refusal.body if isinstance(refusal.body, bytes) else b""
        transport.write(
            b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
            % (len(body), body)
        )
        transport.close()
    return connection
