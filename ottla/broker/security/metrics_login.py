"""Authentication for the broker's metrics: SCRAM users of the cluster with DESCRIBE on the cluster.

Prometheus sends name and password (`basic_auth`). Deriving keys from a password takes milliseconds, so a thread does it
for one caller at a time. A correct password is cached until the user's credentials change.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping

from ottla.security.acls import CLUSTER_NAME, Operation, ResourceType
from ottla.security.authorizer import Authorizer
from ottla.security.principal import USER_TYPE, KafkaPrincipal
from ottla.security.sasl import scram

_MOST_REMEMBERED = 100

#: Stored credentials by user and mechanism.
Users = Callable[[], Mapping[str, Mapping[str, str]]]


class MetricsLogin:
    """Owner: the event loop."""

    def __init__(self, users: Users, authorizer: Callable[[], Authorizer | None]) -> None:
        self._users = users
        self._authorizer = authorizer
        self._secret = secrets.token_bytes(32)
        self._right: set[bytes] = set()
        self._one_at_a_time = asyncio.Lock()

    async def status(self, authorization: str | None, host: str) -> int:
        """Return 200 if the caller may see the metrics, else 401 or 403."""
        name, password = _credentials(authorization)
        credentials = self._users().get(name, {})
        if not credentials or not await self._is_right(password, credentials):
            return 401
        authorizer = self._authorizer()
        if authorizer is None:
            return 200
        principal = KafkaPrincipal(USER_TYPE, name)
        decision = authorizer.authorize(
            principal, host, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME
        )
        return 200 if decision.allowed else 403

    async def _is_right(self, password: str, credentials: Mapping[str, str]) -> bool:
        mechanism, text = min(credentials.items())
        key = hmac.digest(self._secret, f"{mechanism}\0{text}\0{password}".encode(), hashlib.sha256)
        if key in self._right:
            return True
        async with self._one_at_a_time:
            is_right = await asyncio.to_thread(_matches, mechanism, text, password)
        if is_right:
            if len(self._right) >= _MOST_REMEMBERED:
                self._right.clear()
            self._right.add(key)
        return is_right


def _matches(mechanism: str, text: str, password: str) -> bool:
    try:
        kept = scram.parse_credential(text)
    except ValueError:
        return False  # unusable credential
    given = scram.credential(mechanism, password, kept.salt, kept.iterations)
    return hmac.compare_digest(given.stored_key, kept.stored_key)


def _credentials(authorization: str | None) -> tuple[str, str]:
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password
