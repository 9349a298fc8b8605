"""Accept connections on one listener and create a `Connection` for each, after the TLS handshake if enabled.

The listener drives sockets directly (readers and writers on the event loop) instead of using transports. Responses with
log segments can then use `sendfile`, and requests are parsed in their receive buffer.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from ottla.broker.network.connection import Connection
from ottla.broker.network.sasl_login import SaslLogin
from ottla.broker.network.wire import HUNG_UP, RECEIVE_BYTES, PlainWire, TlsHandshake, Wire, reason_of
from ottla.log.files import descriptors
from ottla.log.segments.open_files import active_files
from ottla.security.principal import ANONYMOUS, KafkaPrincipal, NoRuleApplies

if TYPE_CHECKING:
    from ottla.broker.network.connection_limits import ConnectionLimits
    from ottla.broker.network.dispatch import Dispatcher
    from ottla.broker.security.certificate_reload import ListenerTls
    from ottla.broker.security.sasl_settings import SaslSettings

logger = logging.getLogger(__name__)

_ACCEPTS_PER_TURN = 64
# Prefix of IPv4 client addresses on an IPv6 socket.
_MAPPED = "::ffff:"
# Limit on connections held open before refusal; further ones are refused immediately.
_MAX_HELD = 1000
_RETRY_SECONDS = 0.1
# Maximum time for a TLS handshake, capped by the idle limit. Kafka has only the latter.
_HANDSHAKE_SECONDS = 30.0
# Idle checks per connections.max.idle.ms.
_LOOKS_PER_IDLE_TIME = 10


class Listener:
    """One bound address. Owner: the event loop."""

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        max_request_bytes: int,
        limits: ConnectionLimits,
        max_idle_ms: int,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.connections: set[Connection] = set()
        self.accepted = self.ended = 0  # connections since the broker started
        self._dispatcher: Dispatcher
        self._max_request_bytes = max_request_bytes
        self._limits = limits
        self._max_idle = max_idle_ms / 1000
        self.sasl: SaslSettings | None = None  # set if clients must authenticate
        self.tls: ListenerTls | None = None  # set if TLS is enabled
        self._room = memoryview(bytearray(RECEIVE_BYTES))  # receive buffer for TLS
        self._handshakes: set[TlsHandshake] = set()  # including failed ones that are not closed yet
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._accepting = False
        self._failing = False  # True if the failure to accept was logged
        self._refused: dict[socket.socket, asyncio.TimerHandle] = {}
        self._idle_timer: asyncio.TimerHandle | None = None

    def bind(self) -> None:
        """Bind the address without accepting yet. Raises OSError."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listening.bind((self.host, self.port))
            listening.listen(4096)
        except OSError:
            listening.close()
            raise
        listening.setblocking(False)
        self._socket = listening
        self.port = listening.getsockname()[1]

    def open(self, dispatcher: Dispatcher) -> None:
        assert self._socket is not None
        self._dispatcher = dispatcher
        self._loop = asyncio.get_running_loop()
        self._resume()
        if self._max_idle > 0:
            self._look_for_idle()

    # Accepting

    def _on_acceptable(self) -> None:
        assert self._socket is not None
        assert self._loop is not None
        for _ in range(_ACCEPTS_PER_TURN):
            if not self._limits.has_room(self.name):
                self._pause()
                self._limits.when_room(self._resume)
                return
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue  # the client is gone again
            except OSError as error:
                self._cannot_accept(error, self._loop)
                return
            self._failing = False
            self._admit(accepted, address[0].removeprefix(_MAPPED), self._loop)
            if pause := self._limits.pause(self.name, self._loop.time()):
                self._pause()
                self._loop.call_later(pause, self._resume)
                return

    def _cannot_accept(self, error: OSError, loop: asyncio.AbstractEventLoop) -> None:
        """Keep serving connected clients, free descriptors if they ran out, and retry soon."""
        if descriptors.ran_out(error) and active_files.close_idle():
            logger.debug(
                "Listener %s has run out of file descriptors: files of idle logs are closed", self.name
            )
        elif not self._failing:
            reason = descriptors.shortage() if descriptors.ran_out(error) else str(error)
            logger.error("Listener %s cannot accept a connection and will try again: %s", self.name, reason)
            self._failing = True
        self._pause()
        loop.call_later(_RETRY_SECONDS, self._resume)

    def _admit(self, accepted: socket.socket, ip: str, loop: asyncio.AbstractEventLoop) -> None:
        if wait := self._limits.throttled(ip, loop.time()):
            self._refuse_later(accepted, wait, loop)
            return
        if reason := self._limits.refusal(ip):
            logger.info("Refusing a connection from %s on listener %s: %s", ip, self.name, reason)
            accepted.close()
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._limits.enter(self.name, ip)
        if self.tls is None:
            self._serve(PlainWire(accepted), ip, ANONYMOUS, loop)
        else:
            self._shake_hands(accepted, ip, self.tls, loop)

    def _serve(self, wire: Wire, ip: str, principal: KafkaPrincipal, loop: asyncio.AbstractEventLoop) -> None:
        connection = Connection(wire, ip, self.name, self._dispatcher, self._max_request_bytes, self._forget)
        connection.principal = principal
        if self.sasl is not None:
            login = SaslLogin(connection, self._dispatcher, self.sasl, self._max_request_bytes)
            connection.login, connection.handle_frame = login, login.handle
        self.connections.add(connection)
        self.accepted += 1
        connection.open(loop)

    # TLS

    def _shake_hands(
        self, accepted: socket.socket, ip: str, tls: ListenerTls, loop: asyncio.AbstractEventLoop
    ) -> None:
        try:
            handshake = TlsHandshake(
                accepted, tls.context, self._room, ip, loop, self._dispatcher.lane, self._on_handshake
            )
        except (OSError, ValueError) as error:
            logger.debug("A client at %s has gone before its TLS handshake: %s", ip, reason_of(error))
            accepted.close()
            self._limits.leave(self.name, ip)
            return
        self._handshakes.add(handshake)
        handshake.start(min(_HANDSHAKE_SECONDS, self._max_idle) if self._max_idle > 0 else _HANDSHAKE_SECONDS)

    def _on_handshake(self, handshake: TlsHandshake, failure: str | None) -> None:
        assert self._loop is not None
        assert self.tls is not None
        principal = ANONYMOUS
        if failure is None and self.sasl is None:
            try:
                principal = self.tls.principal(handshake.certificate)
            except (NoRuleApplies, ValueError) as error:
                failure = str(error)
        if failure is not None:
            # As in Kafka, a port check that connects and leaves is not worth logging.
            logger.log(
                logging.DEBUG if failure == HUNG_UP else logging.INFO,
                "Failed authentication with %s on listener %s (SSL handshake failed): %s",
                handshake.client_host, self.name, failure.rstrip("."),
            )  # fmt: skip
            handshake.timer = self._loop.call_later(self.tls.failure_delay, self._end_handshake, handshake)
            return
        self._handshakes.discard(handshake)
        self._serve(handshake.wire(), handshake.client_host, principal, self._loop)

    def _end_handshake(self, handshake: TlsHandshake) -> None:
        handshake.close()
        self._handshakes.discard(handshake)
        self._limits.leave(self.name, handshake.client_host)

    def _refuse_later(self, accepted: socket.socket, wait: float, loop: asyncio.AbstractEventLoop) -> None:
        """Hold the connection of a client that reconnects too often, and close it after its throttle time."""

        def close() -> None:
            self._refused.pop(accepted, None)
            accepted.close()

        if len(self._refused) >= _MAX_HELD:
            accepted.close()
        else:
            self._refused[accepted] = loop.call_later(wait, close)

    def _pause(self) -> None:
        if self._socket is not None and self._loop is not None and self._accepting:
            self._accepting = False
            self._loop.remove_reader(self._socket.fileno())

    def _resume(self) -> None:
        if self._socket is not None and self._loop is not None and not self._accepting:
            self._accepting = True
            self._loop.add_reader(self._socket.fileno(), self._on_acceptable)

    def _forget(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self.ended += 1
        self._limits.leave(self.name, connection.client_host)

    # Idle connections: checked periodically together, so that none needs a timer

    def _look_for_idle(self) -> None:
        assert self._loop is not None
        now = self._loop.time()
        for connection in list(self.connections):
            if connection.active or connection.is_served:
                connection.active = False
                connection.idle_since = now
            elif now - connection.idle_since >= self._max_idle:
                logger.debug("Closing the connection from %s: it is idle", connection.client_host)
                connection.close()
        self._idle_timer = self._loop.call_later(self._max_idle / _LOOKS_PER_IDLE_TIME, self._look_for_idle)

    # Shutdown

    def stop_accepting(self) -> None:
        if self._socket is not None:
            self._pause()
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        self.stop_accepting()
        if self.sasl is not None:
            self.sasl.close()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        for refused, timer in self._refused.items():
            timer.cancel()
            refused.close()
        self._refused.clear()
        for handshake in list(self._handshakes):
            self._end_handshake(handshake)
        for connection in list(self.connections):
            connection.close()
