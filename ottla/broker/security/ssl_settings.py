"""Settings of an SSL or SASL_SSL listener: certificates, trust, and the mapping of certificates to principals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.configs.config_defs import Value, format_value
from ottla.metadata.configs.listeners import listener_value, own_listener_value
from ottla.security.principal import BadMappingRules, PrincipalMapper
from ottla.security.tls.settings import Given, StoreSettings, TlsError, Versions

# Only brokers with certificates import these modules.
if TYPE_CHECKING:
    import ssl

    from cryptography.x509 import Certificate

    from ottla.security.tls.stores import KeyStore

_CLIENT_AUTH = "ssl.client.auth"
_RULES = "ssl.principal.mapping.rules"
_HOST_CHECK = "ssl.endpoint.identification.algorithm"
_STORE_TYPES = ("PEM", "PKCS12", "JKS")
_PROTOCOLS = ("TLS", "TLSv1.1", "TLSv1.2", "TLSv1.3", "SSL", "SSLv2", "SSLv3")


@dataclass(frozen=True, slots=True)
class SslSettings:
    """TLS settings of one listener."""

    listener: str
    stores: StoreSettings
    versions: Versions
    client_auth: str
    checks_host: bool  # for connections from this broker to another one
    rules: str
    allows_name_changes: bool
    allows_alternative_name_changes: bool


@dataclass(frozen=True)
class Certificates:
    """Certificates and contexts loaded from the settings of one listener."""

    settings: SslSettings
    key_store: KeyStore
    trusted: list[Certificate] | None
    context: ssl.SSLContext
    mapper: PrincipalMapper

    def client_context(self) -> ssl.SSLContext:
        """Return a context for connections from this broker to the same listener of another one."""
        from ottla.security.tls.contexts import client_context

        return client_context(
            self.key_store, self.trusted, self.settings.versions, check_host=self.settings.checks_host
        )


def ssl_settings(config: BrokerConfig, listener: str) -> SslSettings:
    """Raises ConfigError naming the missing or invalid setting."""
    return settings_from(config.values, listener, has_logins=has_logins(config, listener))


def has_logins(config: BrokerConfig, listener: str) -> bool:
    return any(each.name == listener and each.security_protocol == "SASL_SSL" for each in config.listeners)


def settings_from(values: Mapping[str, Value], listener: str, *, has_logins: bool) -> SslSettings:
    def given(name: str) -> Given | None:
        found = _given(values, listener, name)
        return found if found is not None and found.value else None

    stores = StoreSettings.of(given)
    client_auth = _text(values, listener, _CLIENT_AUTH)
    if has_logins and own_listener_value(values, listener, _CLIENT_AUTH) is None:
        client_auth = "none"  # as in Kafka, SASL listeners use only their own setting (KIP-684)
    if not stores.has_key:
        raise ConfigError(
            f"Listener {listener} asks for TLS, but has no certificate: set ssl.keystore.location, or "
            "ssl.keystore.certificate.chain and ssl.keystore.key."
        )
    if client_auth != "none" and not stores.has_trust:
        raise ConfigError(
            f"Listener {listener} asks its clients for certificates ({_CLIENT_AUTH}={client_auth}), but not whose: "
            "set ssl.truststore.location or ssl.truststore.certificates."
        )
    for name in ("ssl.keystore.type", "ssl.truststore.type"):
        # The file itself shows its type, but only these types are supported.
        kind = _text(values, listener, name)
        if kind.upper() not in _STORE_TYPES:
            raise ConfigError(f"{name} cannot be {kind}; stores may be {', '.join(_STORE_TYPES)}.")
    protocol = _text(values, listener, "ssl.protocol")
    if protocol and protocol not in _PROTOCOLS:
        raise ConfigError(f"ssl.protocol cannot be {protocol}; give one of {', '.join(_PROTOCOLS)}.")
    return SslSettings(
        listener,
        stores,
        Versions(
            _list(values, listener, "ssl.enabled.protocols"), _list(values, listener, "ssl.cipher.suites")
        ),
        client_auth,
        bool(_text(values, listener, _HOST_CHECK)),
        _text(values, listener, _RULES),
        listener_value(values, listener, "ssl.allow.dn.changes") is True,
        listener_value(values, listener, "ssl.allow.san.changes") is True,
    )


def _given(values: Mapping[str, Value], listener: str, name: str) -> Given | None:
    own = own_listener_value(values, listener, name)
    text = format_value(values.get(name) if own is None else own)
    return (
        None
        if text is None
        else Given(name if own is None else f"listener.name.{listener.lower()}.{name}", text)
    )


def _text(values: Mapping[str, Value], listener: str, name: str) -> str:
    return str(listener_value(values, listener, name) or "")


def _list(values: Mapping[str, Value], listener: str, name: str) -> tuple[str, ...]:
    value = listener_value(values, listener, name)
    return tuple(filter(None, value)) if isinstance(value, list) else ()


def read_certificates(settings: SslSettings) -> Certificates:
    """Raises ConfigError with one sentence that names the setting."""
    from ottla.security.tls.contexts import server_context
    from ottla.security.tls.stores import read_key_store, read_trust_store

    try:
        key_store = read_key_store(settings.stores)
        trusted = read_trust_store(settings.stores)
        assert key_store is not None
        context = server_context(key_store, trusted, settings.client_auth, settings.versions)
    except TlsError as error:
        raise ConfigError(f"Listener {settings.listener}: {error}") from None
    try:
        mapper = PrincipalMapper(settings.rules)
    except BadMappingRules as error:
        raise ConfigError(f"Listener {settings.listener}: {_RULES} cannot be read: {error}.") from None
    return Certificates(settings, key_store, trusted, context, mapper)
