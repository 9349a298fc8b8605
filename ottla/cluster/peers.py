"""Peers: connections to other brokers."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from struct import Struct
from typing import Any, NamedTuple, cast

from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.protocol.codec import MalformedMessage, Request, Response
from ottla.protocol.messages import response_type
from ottla.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from ottla.security.sasl.plain import AuthenticationFailed, ClientExchange

# Connection from this broker to another one.

_LENGTH = Struct(">i").unpack_from
_HEADER = Struct(">ihhih").pack
_BUFFER_BYTES = 256 * 1024
# Larger buffers are not reused for the next response.
_KEPT_BYTES = 16 * 1024 * 1024

_answers: dict[int, type[Response]] = {}

OnResponse = Callable[[Any], None]
OnError = Callable[[OSError], None]


class _Waiting(NamedTuple):
    """Request without a response yet."""

    correlation_id: int
    answer: type[Response]
    version: int
    on_response: OnResponse
    on_error: OnError
    keeps: bool  # the caller uses the response's contents after `on_response` returns


class _Held(NamedTuple):
    """Request not yet sent."""

    message: Request
    version: int
    on_response: OnResponse
    on_error: OnError
    keeps: bool


class PeerError(OSError):
    """The other broker is unreachable, closed the connection, or does not speak the protocol."""


class PeerLogin(NamedTuple):
    """Credentials of this broker for logging in to another one."""

    mechanism: str
    exchange: Callable[[str], ClientExchange]  # by host name of the other broker
    setting: str  # name of the setting with user and password


class PeerSecurity(NamedTuple):
    """Requirements of the inter-broker listener."""

    listener: str = "PLAINTEXT"
    context: Callable[[], ssl.SSLContext] | None = (
        None  # TLS context, requested per connection because it may change
    )
    login: PeerLogin | None = None


PLAINTEXT = PeerSecurity()


class PeerConnection(asyncio.BufferedProtocol):
    """Sends requests at once and receives their responses in order. After a failure the connection stays closed.

    The first request connects, and logs in if the other broker requires it. A login with a limited lifetime is renewed
    in time; requests wait meanwhile. Owner: the event loop.
    """

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        *,
        connect_timeout: float = 10.0,
        security: PeerSecurity = PLAINTEXT,
        broker_id: int | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self._client_id = client_id.encode()
        self._connect_timeout = connect_timeout
        self._security = security
        broker = "the broker" if broker_id is None else f"broker {broker_id}"
        self._whom = f"{broker} at {host}:{port} (listener {security.listener})"
        self._is_ready = False  # connected and logged in
        self._held_back: list[_Held] | None = None  # requests that wait for the renewed login
        self._next_login: asyncio.TimerHandle | None = None
        self._logging_in: asyncio.Task[None] | None = None
        self._connecting: asyncio.Task[OSError | None] | None = None
        self._transport: asyncio.Transport | None = None
        self._correlation_id = 0
        self._waiting: deque[_Waiting] = deque()
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._filled = 0
        self._position = 0
        self._held = False
        self._error: OSError | None = None
        self._lost: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        return self._is_ready and self._error is None

    @property
    def is_lost(self) -> bool:
        return self._error is not None

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    async def connect(self) -> None:
        """Raises OSError if the connection fails."""
        if self._error is not None:
            raise self._error
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
        error = await asyncio.shield(self._connecting)
        if error is not None:
            raise error

    async def _connect(self) -> OSError | None:
        """Connect and return any error. If a cancelled caller stopped waiting, a raised error would never be caught."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout):
                if self._security.context is None:
                    await loop.create_connection(lambda: self, self.host, self.port)
                else:
                    context = self._security.context()
                    await loop.create_connection(
                        lambda: self, self.host, self.port, ssl=context, server_hostname=self.host
                    )
                if self._security.login is not None and self._error is None:
                    await self._log_in(self._security.login)
            self._is_ready = True
        except TimeoutError:
            self._fail(PeerError(f"{self.host}:{self.port} does not answer"))
        except ssl.SSLCertVerificationError as error:
            self._fail(PeerError(f"the certificate of {self._whom} is not accepted: {error.verify_message}"))
        except ssl.SSLError as error:
            reason = (error.reason or str(error)).replace("_", " ").lower()
            self._fail(PeerError(f"the TLS handshake with {self._whom} failed: {reason}"))
        except OSError as error:
            is_cut_off = self._security.context is not None and not str(error)
            self._fail(PeerError(f"{self._whom} hung up during the TLS handshake") if is_cut_off else error)
        return self._error

    # Logging in

    async def _log_in(self, login: PeerLogin) -> None:
        """Raises PeerError if the login fails."""

        def refused(reason: str | None) -> PeerError:
            said = (reason or "it gives no reason").rstrip(".")
            return PeerError(f"{self._whom} refuses the login of this broker: {said}; see {login.setting}")

        try:
            answer = await self._ask(SaslHandshakeRequest(mechanism=login.mechanism), 1)
            if answer.error_code:
                raise refused(f"it does not offer {login.mechanism} but {', '.join(answer.mechanisms)}")
            steps = login.exchange(self.host)
            token = await asyncio.to_thread(_next_message, steps, None)
            while token is not None:
                answer = await self._ask(SaslAuthenticateRequest(auth_bytes=token), 1)
                if answer.error_code:
                    raise refused(answer.error_message)
                token = await asyncio.to_thread(_next_message, steps, bytes(answer.auth_bytes))
        except AuthenticationFailed as failure:
            raise PeerError(
                f"this broker cannot log in to {self._whom}: {str(failure).rstrip('.')}; see {login.setting}"
            ) from None
        if answer.session_lifetime_ms > 0:
            # As in Kafka's clients: early enough, and spread out over time.
            seconds = answer.session_lifetime_ms / 1000 * random.uniform(0.85, 0.95)
            self._next_login = asyncio.get_running_loop().call_later(seconds, self._begin_to_repeat_login)

    def _begin_to_repeat_login(self) -> None:
        self._next_login = None
        if self._error is None:
            self._held_back = []
            self._logging_in = asyncio.get_running_loop().create_task(self._repeat_login())

    async def _repeat_login(self) -> None:
        assert self._security.login is not None
        try:
            async with asyncio.timeout(self._connect_timeout):
                await self._log_in(self._security.login)
        except TimeoutError:
            self._fail(PeerError(f"{self._whom} does not answer the repeated login"))
        except OSError as error:
            self._fail(error)
        held, self._held_back = self._held_back or [], None
        for each in held:
            self.send(*each[:4], keeps=each.keeps)

    async def _ask(self, message: Request, version: int) -> Any:
        """Send a request of the login itself and return the response."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._send_now(_Held(message, version, *_settling(future), keeps=True))
        return await future

    async def wait_lost(self) -> None:
        """Wait until the other side hangs up or this side closes the connection."""
        if self._error is None:
            self._lost = self._lost or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._lost)

    async def request(self, message: Request, version: int) -> Any:
        """Send a request and return its response. Raises OSError if there will be none."""
        await self.connect()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answered, failed = _settling(future)
        self.send(message, version, answered, failed, keeps=True)
        return await future

    def send(
        self,
        message: Request,
        version: int,
        on_response: OnResponse,
        on_error: OnError,
        *,
        keeps: bool = False,
    ) -> None:
        """Send a request on an open connection.

        Unless the caller `keeps` the response, its records are views of a buffer that is reused after `on_response`
        returns. A callback that calls `hold` delays the reuse until `release`.
        """
        request = _Held(message, version, on_response, on_error, keeps)
        if not self.is_open:
            on_error(self._error or PeerError("not connected"))
        elif self._held_back is not None:
            self._held_back.append(request)
        else:
            self._send_now(request)

    def _send_now(self, request: _Held) -> None:
        message, version, on_response, on_error, keeps = request
        transport = self._transport
        if transport is None or self._error is not None:
            on_error(self._error or PeerError("not connected"))
            return
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        body = message.encode(version)
        client_id = self._client_id
        tags = b"\0" if message.header_version(version) == 2 else b""
        size = 10 + len(client_id) + len(tags) + len(body)
        key = message.api_key
        answer = _answers.get(key)
        if answer is None:
            answer = _answers[key] = response_type(key)
        self._waiting.append(_Waiting(self._correlation_id, answer, version, on_response, on_error, keeps))
        header = _HEADER(size, message.api_key, version, self._correlation_id, len(client_id))
        transport.write(b"".join((header, client_id, tags, body)))

    def hold(self) -> None:
        """Keep the buffer of the current response until `release`."""
        self._held = True

    def release(self) -> None:
        if not self._held:
            return
        self._held = False
        if self._error is None and self._transport is not None:
            with suppress(RuntimeError):
                self._transport.resume_reading()
            self._take_frames()

    def close(self) -> None:
        self._fail(PeerError(f"the connection to {self.host}:{self.port} was closed"))

    # Receiving

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        sock = transport.get_extra_info("socket")
        if sock is not None:
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._error is not None:  # closed during connect
            transport.close()
        else:
            self._transport = cast(
                asyncio.Transport, transport
            )  # uvloop's transport is not an asyncio subclass

    def connection_lost(self, exc: Exception | None) -> None:
        error = exc if isinstance(exc, OSError) else PeerError(f"{self.host}:{self.port} hung up")
        self._fail(error)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._filled == len(self._buffer):
            self._make_room()
        return self._buffer[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if not self._held:
            self._take_frames()

    def _make_room(self) -> None:
        """Make room in a full buffer: keep the unprocessed bytes, in a larger buffer if needed."""
        left = self._filled - self._position
        needed = max(left + 1, 4 + _LENGTH(self._buffer, self._position)[0] if left >= 4 else 4)
        buffer = self._buffer
        if self._held or needed > len(buffer) or len(buffer) > _KEPT_BYTES:
            buffer = memoryview(bytearray(max(needed, _BUFFER_BYTES)))
        buffer[:left] = bytes(self._buffer[self._position : self._filled])
        self._buffer, self._position, self._filled = buffer, 0, left

    def _take_frames(self) -> None:
        while self._error is None and not self._held:
            left = self._filled - self._position
            if left < 4:
                break
            size = _LENGTH(self._buffer, self._position)[0]
            if size < 4:
                self._fail(PeerError(f"{self.host}:{self.port} sent a response of {size} bytes"))
                return
            if left < 4 + size:
                if self._position + 4 + size > len(self._buffer):
                    self._make_room()
                return
            start = self._position + 4
            self._position = start + size
            self._take(self._buffer[start : self._position])
        if self._held:
            if self._transport is not None and self._error is None:
                self._transport.pause_reading()
        elif self._position == self._filled:
            self._position = self._filled = 0

    def _take(self, frame: memoryview) -> None:
        if not self._waiting or self._waiting[0].correlation_id != _LENGTH(frame)[0]:
            self._fail(PeerError(f"{self.host}:{self.port} sent an unexpected answer"))
            return
        asked = self._waiting[0]
        try:
            response = asked.answer.decode(
                memoryview(bytes(frame)) if asked.keeps else frame,
                asked.version,
                4 + asked.answer.header_version(asked.version),
            )
        except MalformedMessage as error:
            self._fail(PeerError(f"{self.host}:{self.port} sent an unreadable answer: {error}"))
            return
        self._waiting.popleft()
        asked.on_response(response)

    def _fail(self, error: OSError) -> None:
        if self._error is not None:
            return
        self._error = error
        if self._next_login is not None:
            self._next_login.cancel()
            self._next_login = None
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)
        if self._transport is not None:
            self._transport.abort()
        waiting, self._waiting = self._waiting, deque()
        for asked in waiting:
            asked.on_error(error)


def _next_message(steps: ClientExchange, answer: bytes | None) -> bytes | None:
    """Return the next message, or None at the end. Call it off the event loop: it may derive keys or fetch tickets."""
    try:
        return next(steps) if answer is None else steps.send(answer)
    except StopIteration:
        return None


def _settling(future: asyncio.Future[Any]) -> tuple[OnResponse, OnError]:
    """Return callbacks that settle a future unless it is already done."""

    def answered(response: Any) -> None:
        if not future.done():
            future.set_result(response)

    def failed(error: OSError) -> None:
        if not future.done():
            future.set_exception(error)

    return answered, failed


# The other brokers: their inter-broker addresses, and connections to them.

_CONNECT_SECONDS = 10.0


class PeerAddress(NamedTuple):
    broker_id: int
    epoch: int  # epoch of the registration, which a restart changes
    host: str
    port: int


class PeerDialer:
    """Creates all connections from this broker to others. Owner: the event loop."""

    def __init__(self, config: BrokerConfig, image: ClusterImage, security: PeerSecurity = PLAINTEXT) -> None:
        self._client_id = f"broker-{config.broker_id}"
        self._listener = config.inter_broker_listener_name
        self._image = image
        self._security = security

    def address(self, broker_id: int) -> PeerAddress | None:
        """Return a broker's inter-broker address, or None if it is not registered or lacks such a listener."""
        broker = self._image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoints.get(self._listener)
        if broker is None or endpoint is None:
            return None
        return PeerAddress(broker_id, broker.epoch, endpoint.host, endpoint.port)

    def addresses(self, brokers: Iterable[int] | None = None) -> dict[int, PeerAddress]:
        """Return the known addresses of these brokers; by default of all registered brokers, including this one."""
        found = map(self.address, self._image.brokers if brokers is None else brokers)
        return {address.broker_id: address for address in found if address is not None}

    def connection(
        self, address: PeerAddress, purpose: str = "", connect_timeout: float = _CONNECT_SECONDS
    ) -> PeerConnection:
        """Return an unopened connection. `purpose` becomes part of the client id."""
        client_id = f"{self._client_id}-{purpose}" if purpose else self._client_id
        return PeerConnection(
            address.host,
            address.port,
            client_id,
            connect_timeout=connect_timeout,
            security=self._security,
            broker_id=address.broker_id,
        )

    def connection_to(self, broker_id: int, purpose: str = "") -> PeerConnection:
        return self.connection(self.registered(broker_id), purpose)

    def registered(self, broker_id: int) -> PeerAddress:
        address = self.address(broker_id)
        if address is None:
            raise PeerError(f"broker {broker_id} is not registered")
        return address


class Peers:
    """Connections for occasional requests: one per broker, opened on first use.

    Owner: the event loop.
    """

    def __init__(self, dialer: PeerDialer, timeout: float) -> None:
        self._dialer = dialer
        self._timeout = timeout
        self._connections: dict[int, PeerConnection] = {}

    async def request(self, broker_id: int, message: Request, version: int) -> Any:
        """Send a request to a broker and return its response. Raises OSError if it is unavailable."""
        address = self._dialer.registered(broker_id)
        peer = self._connections.get(broker_id)
        if peer is None or (peer.host, peer.port) != (address.host, address.port) or peer.is_lost:
            if peer is not None:
                peer.close()
            peer = self._connections[broker_id] = self._dialer.connection(address)
        try:
            async with asyncio.timeout(self._timeout):
                return await peer.request(message, version)
        except TimeoutError:
            peer.close()  # the outcome is unknown, and a later response would be too late
            raise PeerError(f"broker {broker_id} has not answered for {self._timeout:.0f} s") from None

    def close(self) -> None:
        for peer in self._connections.values():
            peer.close()
        self._connections.clear()
