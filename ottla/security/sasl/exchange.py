"""Types shared by all mechanisms."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple, Protocol


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
