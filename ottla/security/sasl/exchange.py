"""What the mechanisms have in common."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple, Protocol


class AuthenticationFailed(Exception):
    """The reason is for the log of this side. What the other side is told must not say whether a user exists.

    `told` is what to tell it where Kafka has words of its own for this failure.
    """

    def __init__(self, reason: str, *, told: str | None = None) -> None:
        super().__init__(reason)
        self.told = told


class Login(NamedTuple):
    """Somebody who has proved who it is."""

    name: str
    token_id: str | None = None  # with a delegation token of this id
    expires_at_ms: int | None = None


class ServerExchange(Protocol):
    """The server's side of one login."""

    @property
    def login(self) -> Login | None:
        """Set when it is complete."""
        ...

    def answer(self, message: bytes) -> bytes:
        """The answer to the client's next message. AuthenticationFailed ends it."""
        ...


# The client's side: it yields its messages and is sent the answers. AuthenticationFailed, if the server is not to be
# trusted.
ClientExchange = Generator[bytes, bytes, None]
