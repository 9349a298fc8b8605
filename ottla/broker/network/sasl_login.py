"""The login of one connection on a SASL listener.

    handshake ──▶ tokens ──▶ complete
        ▲                       │
        └── again (KIP-368), where a login lasts for a limited time

Until the login is complete, the broker serves only ApiVersions, SaslHandshake and SaslAuthenticate. Any other request
closes the connection before its body is read. After version 0 of the handshake, tokens arrive without a request header.
"""

from __future__ import annotations

import asyncio
import logging
import time
from enum import Enum
from struct import Struct as Packer
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from ottla.security.principal import USER_TYPE, KafkaPrincipal
from ottla.security.sasl import plain
from ottla.security.sasl.plain import AuthenticationFailed, Login, ServerExchange

if TYPE_CHECKING:
    from ottla.broker.network.connection import Connection
    from ottla.broker.network.dispatch import Dispatcher
    from ottla.broker.security.sasl_settings import SaslSettings

logger = logging.getLogger(__name__)

_KEY = Packer(">h").unpack_from
_LENGTH = Packer(">i").pack
_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36
_MOST_API_VERSIONS = 2  # the first may have an unsupported version
_BETWEEN_LOGINS = 1.0  # seconds


class _Step(Enum):
    HANDSHAKE = 1
    TOKENS = 2
    BARE_TOKENS = 3
    COMPLETE = 4


class SaslLogin:
    """Invariant: the connection gets its principal once the login is complete, never before.

    Owner: the event loop.
    """

    def __init__(
        self, connection: Connection, dispatcher: Dispatcher, settings: SaslSettings, max_request_bytes: int
    ) -> None:
        self._connection = connection
        self._dispatcher = dispatcher
        self._settings = settings
        self._max_request_bytes = max_request_bytes
        self._step = _Step.HANDSHAKE
        self._asked_versions = 0
        self._mechanism = ""
        self._exchange: ServerExchange | None = None
        self._repeated_at: float | None = None  # start of the re-authentication
        self._ends_at: float | None = None  # deadline for re-authentication
        self._principal: KafkaPrincipal | None = None
        self.token_id: str | None = None  # delegation token of the login
        connection.max_request_bytes = settings.max_receive_bytes

    def handle(self, connection: Connection, frame: memoryview) -> None:
        """Handle a frame: part of the login, or a request that the login permits."""
        if self._step is _Step.BARE_TOKENS:
            self._take_bare_token(bytes(frame))
            return
        [key] = _KEY(frame, 0) if len(frame) >= 2 else (-1,)
        if self._may_pass(key):
            self._dispatcher.handle(connection, frame)
        else:
            self._hang_up("a request before the login is complete, or after it has expired")

    def _may_pass(self, key: int) -> bool:
        if self._step is _Step.COMPLETE:
            is_login = key in (_HANDSHAKE, _AUTHENTICATE)
            return is_login or self._ends_at is None or time.monotonic() < self._ends_at
        if self._step is _Step.TOKENS:
            return key == _AUTHENTICATE
        if key == _API_VERSIONS and self._principal is None:
            self._asked_versions += 1
            return self._asked_versions <= _MOST_API_VERSIONS
        return key == _HANDSHAKE

    # Requests

    def handshake(self, request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
        if self._step is _Step.COMPLETE:
            if not self._may_repeat():
                raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE)
            self._repeated_at = time.monotonic()
        known = self._settings.mechanisms
        if request.mechanism not in known or (self._principal and request.mechanism != self._mechanism):
            self._connection.end()
            logger.info(
                "%s wants to log in with %s on listener %s, which has %s",
                self._connection.client_host, request.mechanism, self._connection.listener, ", ".join(known),
            )  # fmt: skip
            return SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=list(known)
            )
        self._mechanism = request.mechanism
        self._exchange = self._settings.exchange(request.mechanism)
        self._step = _Step.TOKENS if version else _Step.BARE_TOKENS
        return SaslHandshakeResponse(mechanisms=list(known))

    async def authenticate(self, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        if self._step is not _Step.TOKENS:
            raise KafkaError(
                ErrorCode.ILLEGAL_SASL_STATE,
                "SaslAuthenticate request received after successful authentication",
            )
        try:
            if len(request.auth_bytes) > self._settings.max_receive_bytes:  # during re-authentication
                raise AuthenticationFailed(
                    f"The token has {len(request.auth_bytes)} bytes, more than sasl.server.max.receive.size allows."
                )
            token = self._answer(bytes(request.auth_bytes))
        except AuthenticationFailed as failure:
            await asyncio.sleep(self._settings.failure_delay)
            self._connection.end()
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=failure.told or self._refusal()
            )
        return SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=self._lifetime_ms())

    def _take_bare_token(self, token: bytes) -> None:
        try:
            answer = self._answer(token)
        except AuthenticationFailed:
            self._connection.mute(self._settings.failure_delay + 1)
            asyncio.get_running_loop().call_later(self._settings.failure_delay, self._connection.close)
            return
        self._connection.write([_LENGTH(len(answer)), answer], 4 + len(answer))

    # Internals

    def _answer(self, token: bytes) -> bytes:
        assert self._exchange is not None
        try:
            answer = self._exchange.answer(token)
            if self._exchange.login is not None:
                self._complete(self._exchange.login)
        except AuthenticationFailed as failure:
            logger.info(
                "Failed authentication with %s from %s on listener %s: %s",
                self._mechanism, self._connection.client_host, self._connection.listener, failure,
            )  # fmt: skip
            raise
        return answer

    def _complete(self, login: Login) -> None:
        principal = KafkaPrincipal(USER_TYPE, login.name)
        if self._principal is not None and self._principal != principal:
            was = self._principal
            raise AuthenticationFailed(
                "The client changed its identity during re-authentication.",
                told=f"Cannot change principals during re-authentication from {was.type}.{was.name}: "
                f"{principal.type}.{principal.name}",
            )
        self._principal = self._connection.principal = principal
        self.token_id = login.token_id
        self._exchange = None
        self._step = _Step.COMPLETE
        now = time.monotonic()
        limits = [self._settings.reauth_ms[self._mechanism] / 1000 or None]
        if login.expires_at_ms is not None:
            limits.append(max(login.expires_at_ms / 1000 - time.time(), 0))
        lifetime = min((each for each in limits if each is not None), default=None)
        self._connection.max_request_bytes = self._max_request_bytes
        if lifetime is None:
            self._ends_at = None
            # From now on frames go directly to the dispatcher.
            self._connection.handle_frame = self._dispatcher.handle
        else:
            self._ends_at = now + lifetime

    def _may_repeat(self) -> bool:
        """As in Kafka, the first re-authentication may come at any time, to replace a token before it expires."""
        if self._ends_at is None:
            return False
        return self._repeated_at is None or time.monotonic() - self._repeated_at >= _BETWEEN_LOGINS

    def _lifetime_ms(self) -> int:
        if self._step is not _Step.COMPLETE or self._ends_at is None:
            return 0
        return max(int((self._ends_at - time.monotonic()) * 1000), 0)

    def _refusal(self) -> str:
        """Return Kafka's message, which does not reveal whether the user exists."""
        if self._mechanism == plain.MECHANISM:
            return plain.REFUSAL
        return (
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            f"{self._mechanism}"
        )

    def _hang_up(self, reason: str) -> None:
        logger.info("Closing the connection from %s: %s", self._connection.client_host, reason)
        self._connection.end()
