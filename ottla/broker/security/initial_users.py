"""Users created before the first client can authenticate, such as the admin of a new broker."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.security.scram_users import alter_credentials
from ottla.metadata.stores.store import NodeStore

# User → mechanism → credential (not the password): `ottla.security.sasl.scram.format_credential`.
InitialUsers = Mapping[str, Mapping[str, str]]


async def store_initial_users(store: NodeStore, users: InitialUsers) -> None:
    """Brokers of a cluster may call this concurrently, as they write the same values."""
    for name, credentials in users.items():
        await alter_credentials(store, name, dict(credentials))
