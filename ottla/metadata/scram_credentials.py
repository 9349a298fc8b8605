"""SCRAM credentials of users, stored with other user settings under /config/users as in Kafka."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from urllib.parse import unquote

from ottla.metadata import nodes
from ottla.metadata.client_quotas import USER, entity, entity_path
from ottla.metadata.stores.store import (
    Create,
    NodeExists,
    NodeStore,
    children_if_any,
    ensure_paths,
)

# Derives the salts shown for unknown users. All brokers share it, so that they answer alike for such a user.
SALT_SECRET = "/ottla/scram_salt_secret"
_SECRET_BYTES = 32

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def user_path(name: str) -> str:
    return entity_path(entity({USER: name}))


def decode_credentials(data: bytes) -> dict[str, str]:
    """Return the SCRAM credentials in a user's node, which also contains quotas."""
    return {key: text for key, text in nodes.decode_config(data).items() if key in MECHANISMS}


def replace_credentials(data: bytes, credentials: Mapping[str, str]) -> bytes:
    """Return the user node's data with new credentials and all other settings unchanged."""
    kept = {key: text for key, text in nodes.decode_config(data).items() if key not in MECHANISMS}
    return nodes.encode_config({**kept, **credentials})


async def load_scram_credentials(store: NodeStore) -> dict[str, dict[str, str]]:
    names = [
        name for name in await children_if_any(store, nodes.CONFIG_USERS) if name != nodes.DEFAULT_ENTITY
    ]
    found = await store.get_many([f"{nodes.CONFIG_USERS}/{name}" for name in names])
    credentials = {
        unquote(name): decode_credentials(node.data) for name, node in zip(names, found, strict=True) if node
    }
    return {name: each for name, each in credentials.items() if each}


async def load_salt_secret(store: NodeStore) -> bytes:
    """Return the cluster's secret for the salts of unknown users. The first broker creates it."""
    parent = SALT_SECRET.rpartition("/")[0]
    await ensure_paths(store, [parent])
    with contextlib.suppress(NodeExists):
        await store.multi([Create(SALT_SECRET, secrets.token_bytes(_SECRET_BYTES))])
    return (await store.get(SALT_SECRET)).data
