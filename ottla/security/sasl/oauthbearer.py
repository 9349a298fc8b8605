"""OAUTHBEARER (RFC 7628): the client presents a signed token, so use it over TLS only.

    n,,^Aauth=Bearer TOKEN^A[name=value^A…]^A        (^A is the byte 1)

A refused token is first answered with a JSON document. The client acknowledges it with ^A; only then does the login
fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.security.sasl.plain import AuthenticationFailed, ClientExchange, Login

MECHANISM = "OAUTHBEARER"
# Kafka's answer to any refused token.
INVALID_TOKEN = '{"status":"invalid_token"}'

_ACKNOWLEDGED = b"\1"
_FIRST = re.compile(
    r"n,(?:a=(?P<authzid>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.~+/A-Za-z0-9]+=*)")
_NAME = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")


class BearerToken(NamedTuple):
    """The claims of a validated token."""

    name: str
    expires_at_ms: int
    scopes: frozenset[str] = frozenset()


class TokenRefused(Exception):
    """A refused token. The reason is for the log and contains no part of the token."""


# Raises TokenRefused.
Validate = Callable[[str], BearerToken]


class OAuthBearerServer:
    def __init__(self, validate: Validate) -> None:
        self.login: Login | None = None
        self.extensions: Mapping[str, str] = {}
        self._validate = validate
        self._refused: TokenRefused | None = None

    def answer(self, message: bytes) -> bytes:
        if self._refused is not None:
            if message == _ACKNOWLEDGED:
                raise AuthenticationFailed(str(self._refused), told=INVALID_TOKEN)
            raise AuthenticationFailed("The client continues after its token was refused.")
        authzid, token, extensions = _parse(message)
        try:
            believed = self._validate(token)
        except TokenRefused as refused:
            self._refused = refused
            return INVALID_TOKEN.encode()
        if authzid not in ("", believed.name):
            raise AuthenticationFailed("The client requests another identity than its own.")
        self.extensions = extensions
        self.login = Login(believed.name, expires_at_ms=believed.expires_at_ms)
        return b""


def _parse(message: bytes) -> tuple[str, str, dict[str, str]]:
    try:
        found = _FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise AuthenticationFailed("The first message of the client is not one of OAUTHBEARER.")
    pairs = [pair.partition("=")[::2] for pair in found["pairs"].split("\1") if pair]
    extensions = dict(pairs)
    if len(extensions) != len(pairs):
        raise AuthenticationFailed("The client gives a name twice.")
    auth = _AUTH.fullmatch(extensions.pop("auth", ""))
    if auth is None or auth["scheme"].lower() != "bearer":
        raise AuthenticationFailed("The client shows no bearer token.")
    authzid = (found["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
    return authzid, auth["token"], extensions


def log_in(token: str, extensions: Mapping[str, str] | None = None) -> ClientExchange:
    """Raises AuthenticationFailed if the token or an extension cannot be sent."""
    if not re.fullmatch(r"[-_.~+/A-Za-z0-9]+=*", token):
        raise AuthenticationFailed("the token is not one that OAUTHBEARER can send")
    for name, value in (extensions or {}).items():
        if name == "auth" or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise AuthenticationFailed(f"the SASL extension {name} is not one that OAUTHBEARER can send")
    pairs = "".join(f"{name}={value}\1" for name, value in (extensions or {}).items())
    answer = yield f"n,,\1auth=Bearer {token}\1{pairs}\1".encode()
    if answer:
        yield _ACKNOWLEDGED  # the token was refused; the broker now reports the error
