"""Delegation tokens (KIP-48): how long one lives, and what is derived from it.

A token is an id; its secret is an HMAC of the id that every broker can compute and nobody stores. Clients log in with
SCRAM: the id as user and the HMAC, in base64, as password.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from typing import NamedTuple


def new_token_id() -> str:
    """As Kafka makes them: 22 characters that begin with none that a command line takes for an option."""
    while True:
        text = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def token_hmac(secret: str, token_id: str) -> bytes:
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def token_password(secret: str, token_id: str) -> str:
    return base64.b64encode(token_hmac(secret, token_id)).decode()


class Lifetimes(NamedTuple):
    """In milliseconds: how long a token can be renewed at all, and for how long it is valid each time."""

    max_ms: int
    renew_ms: int

    def begin(self, now_ms: int, wanted_ms: int) -> tuple[int, int]:
        """Until when it can be renewed, and until when it is valid."""
        max_ms = min(self.max_ms, wanted_ms) if wanted_ms > 0 else self.max_ms
        last = now_ms + max_ms
        return last, min(last, now_ms + self.renew_ms)

    def renewed(self, now_ms: int, last: int, wanted_ms: int) -> int:
        period = min(self.renew_ms, wanted_ms) if wanted_ms > 0 else self.renew_ms
        return min(last, now_ms + period)


def shortened(now_ms: int, last: int, wanted_ms: int) -> int:
    """Until when a token is valid that expires so soon."""
    return min(last, now_ms + wanted_ms)
