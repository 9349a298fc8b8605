"""Settings of a SASL listener: mechanisms, users and login lifetime."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.broker.security.jaas_settings import is_without_mechanism, required_login_module
from ottla.broker.security.kerberos_settings import KerberosAcceptor, kerberos_acceptor
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.configs.listeners import listener_value
from ottla.security.delegation_tokens import token_password
from ottla.security.principal import USER_TYPE
from ottla.security.sasl import gssapi, oauthbearer, plain, scram
from ottla.security.sasl.exchange import Login, ServerExchange
from ottla.security.sasl.oauthbearer import OAuthBearerServer
from ottla.security.sasl.plain import PlainServer
from ottla.security.sasl.scram import ScramCredential, ScramServer, Shape

if TYPE_CHECKING:
    from ottla.broker.security.bearer_settings import TokenValidator

logger = logging.getLogger(__name__)

SUPPORTED = (plain.MECHANISM, *scram.HASHES, oauthbearer.MECHANISM, gssapi.MECHANISM)

_MECHANISMS = "sasl.enabled.mechanisms"


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """SASL settings of one listener."""

    listener: str
    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, str] = field(repr=False)
    image: ClusterImage = field(repr=False)
    reauth_ms: Mapping[str, int]  # by mechanism; 0: valid as long as the connection
    failure_delay: float  # seconds
    max_receive_bytes: int
    token_secret: str | None = field(repr=False)  # for delegation tokens
    salt_secret: bytes = field(repr=False)  # for nonexistent users and tokens
    tokens: TokenValidator | None  # OAUTHBEARER
    kerberos: KerberosAcceptor | None
    warnings: tuple[str, ...]
    # By mechanism, with the users they were derived from.
    _known_shapes: dict[str, tuple[Mapping[str, object], list[Shape]]] = field(
        default_factory=dict, repr=False
    )
    # By token id and mechanism: deriving one takes milliseconds.
    _token_credentials: dict[tuple[str, str], ScramCredential] = field(default_factory=dict, repr=False)

    async def open(self) -> None:
        """Load external keys and keytabs. Raises ConfigError."""
        for warning in self.warnings:
            logger.warning("%s", warning)
        if self.tokens is not None:
            await asyncio.to_thread(self.tokens.open)
        if self.kerberos is not None:
            await asyncio.to_thread(self.kerberos.open)

    def close(self) -> None:
        if self.tokens is not None:
            self.tokens.close()

    def exchange(self, mechanism: str) -> ServerExchange:
        if mechanism == plain.MECHANISM:
            return PlainServer(self.plain_users.get)
        if mechanism == oauthbearer.MECHANISM and self.tokens is not None:
            return OAuthBearerServer(self.tokens.validate)
        if mechanism == gssapi.MECHANISM and self.kerberos is not None:
            return self.kerberos.exchange()
        return ScramServer(
            mechanism,
            lambda name, is_token: self._scram_credential(mechanism, name, is_token),
            self._token_owner,
            stand_ins=lambda name, is_token: self._stand_in(mechanism, name, is_token),
        )

    def _stand_in(self, mechanism: str, name: str, is_token: bool) -> ScramCredential:
        """Return a fake credential for an unknown user or token to prove."""
        shapes = [] if is_token else self._shapes(mechanism)
        return scram.stand_in(mechanism, name, self.salt_secret, shapes)

    def _shapes(self, mechanism: str) -> list[Shape]:
        """Return the sorted shapes of all users' credentials, cached until the users change."""
        users = self.image.scram_credentials
        known = self._known_shapes.get(mechanism)
        if known is None or known[0] is not users:
            texts = [each[mechanism] for each in users.values() if mechanism in each]
            shapes = sorted(shape for shape in map(scram.shape_of, texts) if shape is not None)
            known = self._known_shapes[mechanism] = (users, shapes)
        return known[1]

    def _scram_credential(self, mechanism: str, name: str, is_token: bool) -> ScramCredential | None:
        if is_token:
            return self._token_credential(mechanism, name)
        return _parsed(self.image.scram_credentials.get(name, {}).get(mechanism))

    def _token_owner(self, token_id: str) -> Login | None:
        token = self.image.delegation_tokens.get(token_id)
        if token is None or not self.token_secret or token.has_expired(int(time.time() * 1000)):
            return None
        kind, _, name = token.owner.partition(":")
        return Login(name, token_id=token_id, expires_at_ms=token.expires_at) if kind == USER_TYPE else None

    def _token_credential(self, mechanism: str, token_id: str) -> ScramCredential | None:
        if self.token_secret is None:
            return None
        known = self._token_credentials.get((token_id, mechanism))
        if known is None:
            if len(self._token_credentials) > 2 * len(self.image.delegation_tokens) + 100:
                self._token_credentials.clear()  # most of these tokens have expired
            salt = scram.derived_salt(mechanism, token_id, self.salt_secret)
            password = token_password(self.token_secret, token_id)
            known = scram.credential(mechanism, password, salt, scram.MIN_ITERATIONS)
            self._token_credentials[token_id, mechanism] = known
        return known


def _parsed(text: str | None) -> ScramCredential | None:
    try:
        return None if text is None else scram.parse_credential(text)
    except ValueError:
        return None  # unusable credential


def sasl_settings(
    config: BrokerConfig, listener: str, image: ClusterImage, salt_secret: bytes = b""
) -> SaslSettings:
    """Raises ConfigError naming the missing or invalid setting."""
    values = config.values
    mechanisms = listener_value(values, listener, _MECHANISMS)
    enabled = tuple(str(each).upper() for each in mechanisms) if isinstance(mechanisms, list | tuple) else ()
    for mechanism in enabled:
        if mechanism not in SUPPORTED:
            raise ConfigError(
                f"Listener {listener} enables the SASL mechanism {mechanism}, which is not known: set "
                f"{_MECHANISMS} to some of {', '.join(SUPPORTED)}."
            )
    if not enabled:
        raise ConfigError(f"Listener {listener} asks for SASL, but {_MECHANISMS} is empty.")
    users: dict[str, str] = {}
    if plain.MECHANISM in enabled:
        users = required_login_module(config, listener, plain.MECHANISM).users()
    tokens = None
    if oauthbearer.MECHANISM in enabled:
        from ottla.broker.security.bearer_settings import (
            token_validator,  # takes a tenth of a second to import
        )

        tokens = token_validator(config, listener)
    kerberos = None
    if gssapi.MECHANISM in enabled:
        kerberos = kerberos_acceptor(config, listener)
    reauth = {each: listener_value(values, listener, "connections.max.reauth.ms", each) for each in enabled}
    return SaslSettings(
        listener=listener,
        mechanisms=enabled,
        plain_users=users,
        image=image,
        reauth_ms={mechanism: value if isinstance(value, int) else 0 for mechanism, value in reauth.items()},
        failure_delay=config.get_int("connection.failed.authentication.delay.ms") / 1000,
        max_receive_bytes=config.get_int("sasl.server.max.receive.size"),
        token_secret=config.get_optional_str("delegation.token.secret.key"),
        salt_secret=salt_secret,
        tokens=tokens,
        kerberos=kerberos,
        warnings=_warnings(config, listener, tokens),
    )


def _warnings(config: BrokerConfig, listener: str, tokens: TokenValidator | None) -> tuple[str, ...]:
    warnings = []
    if is_without_mechanism(config, listener):
        warnings.append(
            f"sasl.jaas.config is ignored on listener {listener}: it counts only with the listener and the mechanism "
            "before it."
        )
    if tokens is not None and tokens.warning is not None:
        warnings.append(tokens.warning)
    return tuple(warnings)
