"""Changes of SCRAM credentials: Kafka's checks and messages, storage, and the first users of a new broker."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.cluster.image.change_notifications import config_notification
from ottla.metadata.scram_credentials import (
    decode_credentials,
    replace_credentials,
    user_path,
)
from ottla.metadata.stores.store import BadVersion, NodeStore, NoNode, Set, StoreError, ensure_paths
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.security.sasl import scram

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
