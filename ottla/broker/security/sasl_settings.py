"""SASL settings of a listener: mechanisms, JAAS login modules and Kerberos."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.configs.listeners import listener_value, own_listener_value
from ottla.security.delegation_tokens import token_password
from ottla.security.jaas import (
    ENVIRONMENT_VARIABLE,
    JAAS_FILE,
    KERBEROS_CONFIG,
    BadJaas,
    LoginModule,
    parse_entry,
    parse_file,
    server_section,
    system_properties,
)
from ottla.security.principal import USER_TYPE, BadRules, KerberosNames, NoNameFor
from ottla.security.sasl import gssapi, oauthbearer, plain, scram
from ottla.security.sasl.gssapi import MECHANISM, GssapiServer, NotInstalled, acceptor_credentials, library
from ottla.security.sasl.oauthbearer import OAuthBearerServer
from ottla.security.sasl.plain import AuthenticationFailed, Login, PlainServer, ServerExchange
from ottla.security.sasl.scram import ScramCredential, ScramServer, Shape

if TYPE_CHECKING:
    from ottla.broker.security.oauthbearer import TokenValidator

# Login module of a mechanism on a listener, in Kafka's lookup order.
#
# 1. `listener.name.{listener}.{mechanism}.sasl.jaas.config`
# 2. in the JAAS file: the section `{listener}.KafkaServer`
# 3. in the JAAS file: the section `KafkaServer`
#
# The file is set by `java.security.auth.login.config`, a system property in KAFKA_OPTS for Kafka.

_JAAS = "sasl.jaas.config"


def login_module(
    config: BrokerConfig, listener: str, mechanism: str, environment: Mapping[str, str] = os.environ
) -> LoginModule | None:
    """Return the login module, or None if not configured. Raises ConfigError for unreadable settings."""
    name = setting_name(listener, mechanism)
    text = config.values.get(name)
    if text:
        try:
            module = parse_entry(str(text))
        except BadJaas as error:
            raise ConfigError(f"{name} cannot be read: {error}.") from None
        if mechanism not in module.mechanisms:
            raise ConfigError(f"{name} names a login module of {' and '.join(module.mechanisms)}.")
        return module
    path = _file(config, environment)
    return None if path is None else _in_file(path, listener, mechanism)


def required_login_module(config: BrokerConfig, listener: str, mechanism: str) -> LoginModule:
    module = login_module(config, listener, mechanism)
    if module is None:
        name = setting_name(listener, mechanism)
        hint = (
            f" ({_JAAS} counts only with the listener and the mechanism before it)"
            if is_without_mechanism(config, listener)
            else ""
        )
        raise ConfigError(f"Listener {listener} enables {mechanism}, but {name} is not set{hint}.")
    return module


def setting_name(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{_JAAS}"


def is_without_mechanism(config: BrokerConfig, listener: str) -> bool:
    """Return True if `sasl.jaas.config` is set in a form that no mechanism reads."""
    return bool(own_listener_value(config.values, listener, _JAAS) or config.values.get(_JAAS))


def _file(config: BrokerConfig, environment: Mapping[str, str]) -> str | None:
    given = config.get_optional_str("java.security.auth.login.config") or system_properties(environment).get(
        JAAS_FILE
    )
    # In Java, -Dname==path means "only this file".
    path = (given or "").removeprefix("=")
    return unquote(path.removeprefix("file:")) if path.startswith("file:") else path or None


def _in_file(path: str, listener: str, mechanism: str) -> LoginModule | None:
    where = f"The JAAS file {path}, which {JAAS_FILE} or {ENVIRONMENT_VARIABLE} names,"
    try:
        with open(path, encoding="utf-8") as file:
            modules = server_section(parse_file(file.read()), listener)
    except OSError as error:
        raise ConfigError(f"{where} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{where} cannot be read: it is not UTF-8 text.") from None
    except BadJaas as error:
        raise ConfigError(f"{where} cannot be read: {error}.") from None
    if modules is None:
        raise ConfigError(f"{where} has no section {listener.lower()}.KafkaServer and none KafkaServer.")
    return next((module for module in modules if mechanism in module.mechanisms), None)


# GSSAPI settings of a listener: the broker's Kerberos identity, and the mapping of principals to users.

_SERVICE = "sasl.kerberos.service.name"
_RULES = "sasl.kerberos.principal.to.local.rules"


class KerberosAcceptor:
    """Accepts tickets for the broker. Owner: the event loop."""

    def __init__(
        self, listener: str, principal: str | None, service: str, keytab: str | None, rules: list[str]
    ) -> None:
        self._listener = listener
        self._principal = principal
        self._service = service
        self._keytab = keytab
        self._rules = rules
        self._credentials: Any = None
        self._names: KerberosNames

    def open(self) -> None:
        """Read the keytab. Raises ConfigError if it is missing or has no suitable key. Blocks."""
        try:
            self._credentials = acceptor_credentials(self._principal, self._service, self._keytab)
        except AuthenticationFailed as failure:
            where = self._keytab or "the keytab of this machine"
            raise ConfigError(
                f"Listener {self._listener} cannot accept tickets for {self._principal or self._service} with "
                f"{where}: {failure}."
            ) from None
        realm = str(self._credentials.name).rpartition("@")[2]
        self._names = KerberosNames(self._rules, realm or None)

    def exchange(self) -> GssapiServer:
        return GssapiServer(self._credentials, self._short_name)

    def _short_name(self, principal: str) -> str:
        try:
            return self._names.name(principal)
        except NoNameFor as reason:
            raise AuthenticationFailed(str(reason)) from None


def kerberos_acceptor(
    config: BrokerConfig, listener: str, environment: Mapping[str, str] = os.environ
) -> KerberosAcceptor:
    """Return the acceptor without reading the keytab. Raises ConfigError naming the missing or invalid setting."""
    try:
        library()
    except NotInstalled as missing:
        raise ConfigError(f"Listener {listener} enables GSSAPI. {missing}.") from None
    options = required_login_module(config, listener, MECHANISM).options
    configured = listener_value(config.values, listener, _SERVICE, MECHANISM)
    in_jaas = options.get("serviceName")
    if configured and in_jaas and configured != in_jaas:
        raise ConfigError(f"{_SERVICE} is {configured}, but serviceName in the login module is {in_jaas}.")
    service = str(configured or in_jaas or "")
    if not service:
        raise ConfigError(f"Listener {listener} enables GSSAPI, but {_SERVICE} is not set.")
    keytab = options.get("keyTab")
    if options.get("useKeyTab", "").lower() != "true" or not keytab:
        raise ConfigError(
            f"The login module of GSSAPI on listener {listener} needs useKeyTab=true and keyTab: see "
            f"{setting_name(listener, MECHANISM)}."
        )
    rules = listener_value(config.values, listener, _RULES, MECHANISM)
    texts = [str(each) for each in rules] if isinstance(rules, list | tuple) else ["DEFAULT"]
    try:
        KerberosNames(texts, None)
    except BadRules as error:
        raise ConfigError(f"{_RULES} cannot be read: {error}.") from None
    if (krb5_conf := system_properties(environment).get(KERBEROS_CONFIG)) is not None:
        os.environ.setdefault("KRB5_CONFIG", krb5_conf)  # the library has no other way to set it
    return KerberosAcceptor(listener, options.get("principal"), service, keytab.removeprefix("file:"), texts)


# Settings of a SASL listener: mechanisms, users and login lifetime.

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
        from ottla.broker.security.oauthbearer import (
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
