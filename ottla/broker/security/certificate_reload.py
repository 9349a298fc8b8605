"""Certificate reload: a TLS listener reads its certificates again after a change of its settings or of a file.

Existing connections keep their certificates.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.broker.security.ssl_settings import (
    Certificates,
    has_logins,
    read_certificates,
    settings_from,
    ssl_settings,
)
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.configs.config_defs import Value
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.security.principal import ANONYMOUS, USER_TYPE, KafkaPrincipal
from ottla.security.tls.settings import StoreSettings

if TYPE_CHECKING:
    import ssl  # only brokers with certificates import it

logger = logging.getLogger(__name__)


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
        logins = has_logins(self._config, self._listener)
        self._check_names(read_certificates(settings_from(values, self._listener, has_logins=logins)))

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
                f"Listener {self._listener}: the new certificate is for {after.name} instead of {before.name}. "
                "Set ssl.allow.dn.changes=true to allow it."
            )
        missing = before.alternative_names - after.alternative_names
        if missing and not settings.allows_alternative_name_changes:
            raise ConfigError(
                f"Listener {self._listener}: the new certificate lacks {', '.join(sorted(missing))} among its "
                "alternative names. Set ssl.allow.san.changes=true to allow it."
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
