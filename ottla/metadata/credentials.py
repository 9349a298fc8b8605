"""SCRAM credentials and delegation tokens in the metadata store."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

from ottla.metadata import nodes
from ottla.metadata.client_quotas import USER, entity, entity_path, safe_name
from ottla.metadata.stores.store import (
    Create,
    Node,
    NodeExists,
    NodeStore,
    children_if_any,
    ensure_paths,
)

# SCRAM credentials of users, stored with other user settings under /config/users as in Kafka.

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


# Delegation tokens in the metadata store, in Kafka 3.9's format. Their secrets are not stored.

_VERSION = 3


class DelegationToken(NamedTuple):
    """A delegation token. Principals look like `User:ann`; times are in milliseconds."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_at: int
    max_at: int
    expires_at: int

    def may_renew(self, principal: str) -> bool:
        return principal == self.owner or principal in self.renewers

    def is_of(self, principal: str) -> bool:
        """Return True if the principal may see the token without further rights."""
        return principal == self.requester or self.may_renew(principal)

    def has_expired(self, now_ms: int) -> bool:
        return self.max_at < now_ms or self.expires_at < now_ms


def token_path(token_id: str) -> str:
    return f"{nodes.DELEGATION_TOKENS}/{token_id}"


def token_notification(token_id: str) -> Create:
    """Return the operation that notifies all brokers, to be added to the multi that makes the change."""
    return Create(f"{nodes.DELEGATION_TOKEN_CHANGES}/token_change_", token_id.encode(), sequential=True)


def encode_token(token: DelegationToken) -> bytes:
    fields = {
        "version": _VERSION,
        "owner": safe_name(token.owner),
        "tokenRequester": safe_name(token.requester),
        "renewers": [safe_name(each) for each in token.renewers],
        "issueTimestamp": token.issued_at,
        "maxTimestamp": token.max_at,
        "expiryTimestamp": token.expires_at,
        "tokenId": safe_name(token.token_id),
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_token(token_id: str, data: bytes) -> DelegationToken:
    try:
        fields = json.loads(data)
        owner = unquote(str(fields["owner"]))
        return DelegationToken(
            token_id,
            owner,
            # Before version 3 a token's requester was always its owner.
            unquote(str(fields.get("tokenRequester", owner))),
            tuple(unquote(str(each)) for each in fields.get("renewers", ())),
            int(fields["issueTimestamp"]),
            int(fields["maxTimestamp"]),
            int(fields["expiryTimestamp"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise nodes.BadNode(f"{token_path(token_id)} cannot be read: {error}") from None


async def read_tokens(store: NodeStore, ids: list[str]) -> dict[str, DelegationToken | None]:
    """Return the tokens by id; None for missing or invalid ones."""
    found = await store.get_many([token_path(each) for each in ids])
    return {token_id: _token(token_id, node) for token_id, node in zip(ids, found, strict=True)}


async def load_delegation_tokens(store: NodeStore) -> dict[str, DelegationToken]:
    found = await read_tokens(store, await children_if_any(store, nodes.DELEGATION_TOKENS))
    return {token_id: token for token_id, token in found.items() if token is not None}


def _token(token_id: str, node: Node | None) -> DelegationToken | None:
    try:
        return None if node is None else decode_token(token_id, node.data)
    except nodes.BadNode:
        return None  # unreadable, so no client can log in with it
