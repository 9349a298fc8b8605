"""PLAIN (RFC 4616): user name and password in clear text, so use it over TLS only."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from ottla.security.sasl.exchange import AuthenticationFailed, ClientExchange, Login

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
