"""Users that have to be there before the first client can log in, such as the admin of a broker that is new."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.security.scram_users import alter_credentials
from ottla.metadata.stores.store import NodeStore

# User → mechanism → credential, which is no password: `ottla.security.sasl.scram.format_credential`.
InitialUsers = Mapping[str, Mapping[str, str]]


async def store_initial_users(store: NodeStore, users: InitialUsers) -> None:
    """Brokers of a cluster may do this at the same time: they write the same."""
    for name, credentials in users.items():
        await alter_credentials(store, name, dict(credentials))
