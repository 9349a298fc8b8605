"""Settings of an SSL or SASL_SSL listener: certificates, trust, and the mapping of certificates to principals.

The broker reloads certificates at run time, after a change of the listener settings or of a file. Existing connections
keep their certificates.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.configs.config_defs import Value, format_value
from ottla.metadata.configs.listeners import listener_value, own_listener_value
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.security.principal import ANONYMOUS, USER_TYPE, KafkaPrincipal
from ottla.security.principal_mapping import BadMappingRules, PrincipalMapper
from ottla.security.tls.settings import Given, StoreSettings, TlsError, Versions

# Only brokers with certificates import these modules.
if TYPE_CHECKING:
    import ssl

    from cryptography.x509 import Certificate

    from ottla.security.tls.stores import KeyStore

logger = logging.getLogger(__name__)

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
    return _settings(config.values, listener, has_logins=_has_logins(config, listener))


def _has_logins(config: BrokerConfig, listener: str) -> bool:
    return any(each.name == listener and each.security_protocol == "SASL_SSL" for each in config.listeners)


def _settings(values: Mapping[str, Value], listener: str, *, has_logins: bool) -> SslSettings:
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


class ListenerTls:
    """Current certificates of one listener.

    Invariant: a change takes effect completely or not at all. Owner: the event loop; files are read in a thread.
    """

    def __init__(self, config: BrokerConfig, listener: str) -> None:
        """Raises ConfigError."""
        self._config = config
        self._listener = listener
        self.failure_delay = config.get_int("connection.failed.authentication.delay.ms") / 1000
        settings = ssl_settings(config, listener)
        self._stamps = _stamps(settings.stores)
        self._certificates = read_certificates(settings)
        self._client_context: ssl.SSLContext | None = None
        self._reported = ""  # problem of the last reload, already logged
        self._reading = asyncio.Lock()  # an older read must not replace a newer one
        self._warn_if_not_valid()

    @property
    def context(self) -> ssl.SSLContext:
        return self._certificates.context

    @property
    def client_context(self) -> ssl.SSLContext:
        if self._client_context is None:
            self._client_context = self._certificates.client_context()
        return self._client_context

    def principal(self, certificate: bytes | None) -> KafkaPrincipal:
        """Return the principal of a certificate. Raises NoRuleApplies, or ValueError if unreadable."""
        if certificate is None:
            return ANONYMOUS
        from ottla.security.tls.stores import subject_name_of

        return KafkaPrincipal(USER_TYPE, self._certificates.mapper.name(subject_name_of(certificate)))

    # Changes

    @property
    def is_outdated(self) -> bool:
        try:
            return ssl_settings(self._config, self._listener) != self._certificates.settings
        except ConfigError:
            return True

    def check(self, values: Mapping[str, Value]) -> None:
        """Check whether the listener could use these broker settings. Raises ConfigError."""
        has_logins = _has_logins(self._config, self._listener)
        self._check_names(read_certificates(_settings(values, self._listener, has_logins=has_logins)))

    async def reload(self) -> None:
        async with self._reading:
            await self._reload()

    async def _reload(self) -> None:
        try:
            settings = ssl_settings(self._config, self._listener)
            stamps = _stamps(settings.stores)
            found = await asyncio.to_thread(read_certificates, settings)
            self._check_names(found)
        except ConfigError as error:
            if str(error) != self._reported:
                self._reported = str(error)
                logger.error("The certificates of listener %s stay as they are. %s", self._listener, error)
            return
        self._reported = ""
        self._certificates, self._stamps, self._client_context = found, stamps, None
        logger.info("Listener %s has read its certificates again (%s)", self._listener, found.key_store.name)
        self._warn_if_not_valid()

    async def reload_if_changed(self) -> None:
        """Reload if any file has changed, readable or not."""
        stamps = _stamps(self._certificates.settings.stores)
        if stamps != self._stamps:
            self._stamps = stamps
            await self.reload()

    def _check_names(self, found: Certificates) -> None:
        """Check the certificate names, since clients and principal rules rely on them."""
        before, after, settings = self._certificates.key_store, found.key_store, found.settings
        if before.name != after.name and not settings.allows_name_changes:
            raise ConfigError(
                f"Listener {self._listener}: the new certificate is of {after.name} instead of {before.name}; "
                "set ssl.allow.dn.changes=true if that is meant."
            )
        missing = before.alternative_names - after.alternative_names
        if missing and not settings.allows_alternative_name_changes:
            raise ConfigError(
                f"Listener {self._listener}: the new certificate lacks {', '.join(sorted(missing))} among its "
                "alternative names; set ssl.allow.san.changes=true if that is meant."
            )

    def _warn_if_not_valid(self) -> None:
        if (reason := self._certificates.key_store.not_valid_now()) is not None:
            logger.warning(
                "The certificate of listener %s (%s) %s: clients will refuse it",
                self._listener, self._certificates.key_store.name, reason,
            )  # fmt: skip


class TlsListeners:
    """TLS listeners of a broker by name. Owner: the event loop."""

    def __init__(self, config: BrokerConfig) -> None:
        """Raises ConfigError."""
        self._config = config
        self._reloading: set[asyncio.Task[None]] = set()
        self.of = {
            each.name: ListenerTls(config, each.name)
            for each in config.listeners
            if each.security_protocol.endswith("SSL")
        }

    def check(self, own: Mapping[str, str]) -> None:
        """Check whether the listeners would work with this dynamic configuration. Raises KafkaError."""
        named = [name for name in self.of if _names(own, name)]
        if not named:
            return
        values = self._config.values_with(own)
        for name in named:
            try:
                self.of[name].check(values)
            except ConfigError as error:
                raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None

    def settings_changed(self) -> None:
        """Reload listeners after a config change.

        Settings that name certificates trigger a reload even with unchanged text: in Kafka this announces a changed
        file.
        """
        for name, tls in self.of.items():
            if _names(self._config.dynamic_broker, name) or tls.is_outdated:
                task = asyncio.get_running_loop().create_task(tls.reload())
                self._reloading.add(task)
                task.add_done_callback(self._reloading.discard)

    async def reload_changed(self) -> None:
        for tls in self.of.values():
            await tls.reload_if_changed()


def _names(layer: Mapping[str, str], listener: str) -> bool:
    return any(each.startswith(f"listener.name.{listener.lower()}.ssl.") for each in layer)


def _stamps(stores: StoreSettings) -> dict[str, tuple[int, int, int] | None]:
    """Return modification stamps of the files; None for a missing file."""
    stamps: dict[str, tuple[int, int, int] | None] = {}
    for name in stores.files:
        try:
            found = os.stat(name)
            stamps[name] = (found.st_mtime_ns, found.st_size, found.st_ino)
        except (OSError, ValueError):
            stamps[name] = None
    return stamps
