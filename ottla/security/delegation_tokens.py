"""Delegation tokens (KIP-48): lifetimes and derived secrets.

A token is an id. Its secret is an HMAC of the id, which every broker can compute and none stores. Clients log in with
SCRAM: the id is the user name, and the HMAC in base64 the password.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from typing import NamedTuple


def new_token_id() -> str:
    """Return an id like Kafka's: 22 characters, and none at the start that a command line takes for an option."""
    while True:
        text = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def token_hmac(secret: str, token_id: str) -> bytes:
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def token_password(secret: str, token_id: str) -> str:
    return base64.b64encode(token_hmac(secret, token_id)).decode()


class Lifetimes(NamedTuple):
    """Limits in milliseconds: maximum lifetime with renewals, and validity of each renewal."""

    max_ms: int
    renew_ms: int

    def begin(self, now_ms: int, wanted_ms: int) -> tuple[int, int]:
        max_ms = min(self.max_ms, wanted_ms) if wanted_ms > 0 else self.max_ms
        last = now_ms + max_ms
        return last, min(last, now_ms + self.renew_ms)

    def renewed(self, now_ms: int, last: int, wanted_ms: int) -> int:
        period = min(self.renew_ms, wanted_ms) if wanted_ms > 0 else self.renew_ms
        return min(last, now_ms + period)


def shortened(now_ms: int, last: int, wanted_ms: int) -> int:
    return min(last, now_ms + wanted_ms)
