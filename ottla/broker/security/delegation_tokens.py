"""Delegation tokens of the cluster: permissions, checked in Kafka's order, and storage."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection, Iterable

from ottla.metadata import nodes
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.credentials import (
    DelegationToken,
    decode_token,
    encode_token,
    token_notification,
    token_path,
)
from ottla.metadata.stores.store import BadVersion, Create, Delete, NodeStore, NoNode, Set, StoreError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.security.delegation_tokens import Lifetimes, new_token_id, shortened, token_hmac
from ottla.security.principal import USER_TYPE, KafkaPrincipal

_MAX_ATTEMPTS = 10
_MOST_RENEWERS = 1000


class DelegationTokens:
    """Invariant: the image matches the store, with a short delay. Owner: the event loop."""

    def __init__(self, config: BrokerConfig, store: NodeStore, image: ClusterImage) -> None:
        self._store = store
        self._image = image
        self._secret = config.get_optional_str("delegation.token.secret.key")
        self._lifetimes = Lifetimes(
            config.get_int("delegation.token.max.lifetime.ms"),
            config.get_int("delegation.token.expiry.time.ms"),
        )

    @property
    def are_enabled(self) -> bool:
        return bool(self._secret)

    def hmac(self, token: DelegationToken) -> bytes:
        return token_hmac(self._require_secret(), token.token_id)

    async def create(
        self,
        owner: KafkaPrincipal,
        requester: KafkaPrincipal,
        renewers: Iterable[KafkaPrincipal],
        max_lifetime_ms: int,
        now_ms: int,
    ) -> DelegationToken:
        """Raises KafkaError."""
        self._require_secret()
        renewers = tuple(renewers)
        # A token login authenticates a user with the owner's name, so only users may own tokens.
        if any(each.type != USER_TYPE for each in (owner, *renewers)):
            raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
        if len(renewers) > _MOST_RENEWERS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"More than {_MOST_RENEWERS} renewers.")
        max_at, expires_at = self._lifetimes.begin(now_ms, max_lifetime_ms)
        token = DelegationToken(
            new_token_id(),
            str(owner),
            str(requester),
            tuple(map(str, renewers)),
            now_ms,
            max_at,
            expires_at,
        )
        await self._store.multi(
            [Create(token_path(token.token_id), encode_token(token)), token_notification(token.token_id)]
        )
        self._image.delegation_tokens[token.token_id] = token
        return token

    async def renew(self, secret: bytes, principal: KafkaPrincipal, period_ms: int, now_ms: int) -> int:
        """Return the new expiry time. Raises KafkaError."""
        token = await self._change(
            self._find(secret),
            principal,
            now_ms,
            lambda known: known._replace(expires_at=self._lifetimes.renewed(now_ms, known.max_at, period_ms)),
        )
        return token.expires_at if token is not None else now_ms

    async def expire(self, secret: bytes, principal: KafkaPrincipal, period_ms: int, now_ms: int) -> int:
        """Return the new expiry time; a negative period removes the token. Raises KafkaError."""
        token = await self._change(
            self._find(secret),
            principal,
            now_ms,
            lambda known: (
                None
                if period_ms < 0
                else known._replace(expires_at=shortened(now_ms, known.max_at, period_ms))
            ),
        )
        return token.expires_at if token is not None else now_ms

    def described(
        self,
        principal: KafkaPrincipal,
        owners: Collection[str] | None,
        may_see: Callable[[DelegationToken], bool],
    ) -> list[DelegationToken]:
        """Return the visible tokens of all or some owners. Raises KafkaError."""
        self._require_secret()
        return [
            token
            for token in self._image.delegation_tokens.values()
            if (owners is None or not {token.owner, token.requester, *token.renewers}.isdisjoint(owners))
            and (token.is_of(str(principal)) or may_see(token))
        ]

    async def remove_expired(self, now_ms: int) -> None:
        for token in list(self._image.delegation_tokens.values()):
            if token.has_expired(now_ms):
                try:
                    await self._change(token, None, now_ms, lambda known: None)
                except (KafkaError, StoreError):
                    continue  # renewed or removed just now, or retried later

    # Internals

    def _require_secret(self) -> str:
        if not self._secret:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        return self._secret

    def _find(self, secret: bytes) -> DelegationToken:
        key = self._require_secret()
        for token in self._image.delegation_tokens.values():
            if hmac.compare_digest(token_hmac(key, token.token_id), secret):
                return token
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

    async def _change(
        self,
        token: DelegationToken,
        principal: KafkaPrincipal | None,
        now_ms: int,
        change: Callable[[DelegationToken], DelegationToken | None],
    ) -> DelegationToken | None:
        """Update a token, or remove it if `change` returns None. Without a principal it must have expired."""
        token_id, path = token.token_id, token_path(token.token_id)
        for _ in range(_MAX_ATTEMPTS):
            try:
                node = await self._store.get(path)
                known = decode_token(token_id, node.data)
            except (NoNode, nodes.BadNode):
                self._image.delegation_tokens.pop(token_id, None)
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND) from None
            if principal is not None and not known.may_renew(str(principal)):
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
            if known.has_expired(now_ms) != (principal is None):
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
            after = change(known)
            write = (
                Delete(path, node.version) if after is None else Set(path, encode_token(after), node.version)
            )
            try:
                await self._store.multi([write, token_notification(token_id)])
            except (BadVersion, NoNode) as error:
                if error.path != path:
                    raise
                continue  # another broker was faster
            if after is None:
                self._image.delegation_tokens.pop(token_id, None)
            else:
                self._image.delegation_tokens[token_id] = after
            return after
        raise StoreError(f"{path} changes faster than it can be read.")
