"""PLAIN (RFC 4616), and the types shared by all mechanisms."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Generator
from typing import NamedTuple, Protocol

# Types shared by all mechanisms.


class AuthenticationFailed(Exception):
    """A failed login. The reason is for the local log; the answer must not reveal whether a user exists.

    `told` is the answer to the other side where Kafka has a message for this failure.
    """

    def __init__(self, reason: str, *, told: str | None = None) -> None:
        super().__init__(reason)
        self.told = told


class Login(NamedTuple):
    """An authenticated client."""

    name: str
    token_id: str | None = None  # id of the delegation token used
    expires_at_ms: int | None = None


class ServerExchange(Protocol):
    """The server's side of one login."""

    @property
    def login(self) -> Login | None:
        """Set after a successful login."""
        ...

    def answer(self, message: bytes) -> bytes:
        """Answer the client's next message. Raises AuthenticationFailed to end the login."""
        ...


# The client's side: yields its messages and receives the answers. Raises AuthenticationFailed if the server cannot be
# trusted.
ClientExchange = Generator[bytes, bytes, None]

# PLAIN (RFC 4616): user name and password in clear text, so use it over TLS only.

MECHANISM = "PLAIN"
# Kafka's message for a refused client.
REFUSAL = "Authentication failed: Invalid username or password"

# Returns the password of a user, or None.
Passwords = Callable[[str], str | None]


class PlainServer:
    def __init__(self, passwords: Passwords) -> None:
        self.login: Login | None = None
        self._passwords = passwords

    def answer(self, message: bytes) -> bytes:
        try:
            parts = message.decode().split("\0")
        except UnicodeDecodeError:
            raise AuthenticationFailed("The message is not UTF-8.") from None
        if len(parts) != 3:
            raise AuthenticationFailed(
                f"The message has {len(parts)} parts instead of 3.",
                told=f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}",
            )
        authzid, name, password = parts
        if not name or not password:
            missing = "password" if name else "username"
            raise AuthenticationFailed(
                f"The {missing} is empty.", told=f"Authentication failed: {missing} not specified"
            )
        known = self._passwords(name)
        # Always compare, so that the response time does not reveal existing users.
        is_right = hmac.compare_digest((known or "").encode(), password.encode())
        if known is None or not is_right:
            raise AuthenticationFailed("The user does not exist, or the password is wrong.")
        if authzid not in ("", name):
            raise AuthenticationFailed(
                "The client requests another identity than its own.",
                told="Authentication failed: Client requested an authorization id that is different from username",
            )
        self.login = Login(name)
        return b""


def log_in(name: str, password: str) -> ClientExchange:
    yield f"\0{name}\0{password}".encode()
