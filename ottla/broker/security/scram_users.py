"""SCRAM users: changes of credentials, and the login of metrics clients."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping

from ottla.cluster.image.change_notifications import config_notification
from ottla.metadata.credentials import (
    decode_credentials,
    replace_credentials,
    user_path,
)
from ottla.metadata.stores.store import BadVersion, NodeStore, NoNode, Set, StoreError, ensure_paths
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.security.acls import CLUSTER_NAME, Operation, ResourceType
from ottla.security.authorizer import Authorizer
from ottla.security.principal import USER_TYPE, KafkaPrincipal
from ottla.security.sasl import scram

# Changes of SCRAM credentials: Kafka's checks and messages, storage, and the first users of a new broker.

# Kafka's mechanism numbers.
MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
NUMBERS = {name: number for number, name in MECHANISMS.items()}

_MAX_ATTEMPTS = 10


def upsertion(mechanism: int, iterations: int, salt: bytes, salted_password: bytes) -> tuple[str, str]:
    """Return mechanism and credential. Raises KafkaError."""
    name = mechanism_name(mechanism)
    if iterations < scram.MIN_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if iterations > scram.MAX_STORED_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not salt or not salted_password:
        raise KafkaError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL, "Attempting to create a credential with an empty secret"
        )
    return name, scram.format_credential(scram.from_salted_password(name, salted_password, salt, iterations))


def mechanism_name(number: int) -> str:
    name = MECHANISMS.get(number)
    if name is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return name


async def alter_credentials(store: NodeStore, user: str, changes: Mapping[str, str | None]) -> None:
    """Set the credentials of a user, or delete those mapped to None, and notify all brokers. Raises KafkaError."""
    path = user_path(user)
    for _ in range(_MAX_ATTEMPTS):
        await ensure_paths(store, [path])
        node = await store.get(path)
        before = decode_credentials(node.data)
        after = dict(before)
        for mechanism, credential in changes.items():
            if credential is not None:
                after[mechanism] = credential
            elif after.pop(mechanism, None) is None:
                raise KafkaError(
                    ErrorCode.RESOURCE_NOT_FOUND,
                    "Attempt to delete a user credential that does not exist",
                )
        write = Set(path, replace_credentials(node.data, after), node.version)
        try:
            await store.multi([write, config_notification(path)])
        except (BadVersion, NoNode) as error:
            if error.path != path:
                raise
            continue  # another broker was faster
        return
    raise StoreError(f"{path} changes faster than it can be read.")


# User → mechanism → credential (not the password): `ottla.security.sasl.scram.format_credential`.
InitialUsers = Mapping[str, Mapping[str, str]]


async def store_initial_users(store: NodeStore, users: InitialUsers) -> None:
    """Brokers of a cluster may call this concurrently, as they write the same values."""
    for name, credentials in users.items():
        await alter_credentials(store, name, dict(credentials))


# Authentication for the broker's metrics: SCRAM users of the cluster with DESCRIBE on the cluster.
#
# Prometheus sends name and password (`basic_auth`). Deriving keys from a password takes milliseconds, so a
# thread does it for one caller at a time. A correct password is cached until the user's credentials change.

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
