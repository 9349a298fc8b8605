"""Cluster connection settings, from client properties with the names of the Java client or librdkafka."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.protocol.errors import ErrorCode
from ottla.security.tls.settings import Given, StoreSettings, TlsError, Versions

if TYPE_CHECKING:
    import ssl

    from ottla.security.oauth import OAuth

DEFAULT_PORT = 9092

_JAAS_OPTION = re.compile(r'([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'|([^\s;]+))')

_NO_STORES = StoreSettings()


@dataclass(frozen=True, slots=True)
class Tls:
    """Trusted and own certificates, as files or text: PEM, PKCS12 or JKS, recognised by their content."""

    stores: StoreSettings = _NO_STORES
    protocols: tuple[str, ...] = ()
    ciphers: tuple[str, ...] = ()
    verify: bool = True
    check_host: bool = True

    def context(self) -> ssl.SSLContext:
        """Raises ClientError if the settings are invalid."""
        # Imported on demand: most test and laptop clusters do not need TLS.
        from ottla.security.tls.contexts import client_context
        from ottla.security.tls.stores import read_key_store, read_trust_store

        try:
            return client_context(
                read_key_store(self.stores),
                read_trust_store(self.stores) if self.verify else None,
                Versions(self.protocols, self.ciphers),
                check_host=self.check_host,
                verify=self.verify,
            )
        except TlsError as error:
            raise ClientError(
                f"The client configuration is not valid: {error}", ErrorCode.INVALID_CONFIG
            ) from None


@dataclass(frozen=True, slots=True)
class Kerberos:
    """Kerberos settings. Without a keytab the current user's tickets are used."""

    service: str = "kafka"
    principal: str | None = None
    keytab: str | None = None


@dataclass(frozen=True, slots=True)
class Sasl:
    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    #: User and password are id and HMAC of a delegation token.
    is_token: bool = False
    oauth: OAuth | None = None
    kerberos: Kerberos | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """Connection settings. Hashable, so that equal settings can share connections."""

    bootstrap: tuple[tuple[str, int], ...] = ()
    client_id: str = "ottla"
    tls: Tls | None = None
    sasl: Sasl | None = None
    request_timeout: float = 30.0
    #: Time limit for retries.
    api_timeout: float = 60.0
    retry_backoff: float = 0.1

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], client_id: str = "ottla") -> Settings:
        return cls(
            bootstrap=parse_servers(properties.get("bootstrap.servers", "")),
            client_id=properties.get("client.id", client_id),
            tls=_tls(properties),
            sasl=_sasl(properties),
            request_timeout=_seconds(properties, "request.timeout.ms", 30_000),
            api_timeout=_seconds(properties, "default.api.timeout.ms", 60_000),
            retry_backoff=_seconds(properties, "retry.backoff.ms", 100),
        )

    @property
    def servers(self) -> str:
        """Comma-separated `host:port` list."""
        return ",".join(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.bootstrap
        )


def parse_servers(text: str) -> tuple[tuple[str, int], ...]:
    """Parse addresses such as `a:9092; b`, separated by commas, semicolons or blanks, with optional ports."""
    servers = []
    for server in re.split(r"[,;\s]+", text):
        if not server:
            continue
        name, colon, port = server.rpartition(":")
        is_host_alone = not colon or (":" in name.partition("]")[0].strip("[") and not name.startswith("["))
        if colon and port.isdigit() and not name.endswith(":"):
            servers.append((name.strip("[]"), int(port)))
            if int(port) > 65535:
                raise _bad_address(server)
        elif colon and not is_host_alone and not server.endswith("]"):
            raise _bad_address(server)
        else:
            servers.append((server.strip("[]"), DEFAULT_PORT))
    return tuple(servers)


def _bad_address(text: str) -> ClientError:
    return ClientError(
        f"'{text}' is not the address of a broker: write HOST:PORT, for example localhost:9092."
    )


def _seconds(properties: Mapping[str, str], name: str, default: int) -> float:
    text = properties.get(name, str(default))
    try:
        return int(text) / 1000
    except ValueError:
        raise ClientError(f"{name} must be a number of milliseconds, not '{text}'.") from None


def _protocol(properties: Mapping[str, str]) -> str:
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        raise ClientError(
            f"The client configuration is not valid: there is no security.protocol {protocol}.",
            ErrorCode.INVALID_CONFIG,
        )
    return protocol


def _sasl(properties: Mapping[str, str]) -> Sasl | None:
    if not _protocol(properties).startswith("SASL"):
        return None
    jaas = jaas_options(properties.get("sasl.jaas.config", ""))
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "GSSAPI"
    oauth = None
    if mechanism == "OAUTHBEARER":
        from ottla.security.oauth import NoToken, oauth_settings

        try:
            oauth = oauth_settings(properties, jaas)
        except NoToken as missing:
            raise ClientError(str(missing), ErrorCode.INVALID_CONFIG) from None
    return Sasl(
        mechanism,
        properties.get("sasl.username", jaas.get("username", "")),
        properties.get("sasl.password", jaas.get("password", "")),
        is_token=jaas.get("tokenauth", "").lower() == "true",
        oauth=oauth,
        kerberos=_kerberos(properties, jaas) if mechanism == "GSSAPI" else None,
    )


def _kerberos(properties: Mapping[str, str], jaas: Mapping[str, str]) -> Kerberos:
    return Kerberos(
        properties.get("sasl.kerberos.service.name") or jaas.get("serviceName") or "kafka",
        properties.get("sasl.kerberos.principal") or jaas.get("principal"),
        properties.get("sasl.kerberos.keytab") or jaas.get("keyTab"),
    )


def jaas_options(text: str) -> dict[str, str]:
    """Return user name, password and other options of a Java login module: `… required
    username="ann" password="…";`.
    """
    return {
        found[1]: re.sub(r"\\(.)", r"\1", next(group for group in found.groups()[1:] if group is not None))
        for found in _JAAS_OPTION.finditer(text)
    }


def _tls(properties: Mapping[str, str]) -> Tls | None:
    if not _protocol(properties).endswith("SSL"):
        return None
    given = partial(_first_given, properties)
    stores = StoreSettings(
        keystore_location=given("ssl.certificate.location", "ssl.keystore.location"),
        keystore_password=given("ssl.keystore.password"),
        keystore_key=given("ssl.key.pem", "ssl.keystore.key"),
        keystore_certificate_chain=given("ssl.certificate.pem", "ssl.keystore.certificate.chain"),
        key_location=given("ssl.key.location"),
        key_password=given("ssl.key.password"),
        truststore_location=given("ssl.ca.location", "ssl.truststore.location"),
        truststore_password=given("ssl.truststore.password"),
        truststore_certificates=given("ssl.ca.pem", "ssl.truststore.certificates"),
    )
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https")
    return Tls(
        stores,
        protocols=_names(properties, "ssl.enabled.protocols"),
        ciphers=_names(properties, "ssl.cipher.suites"),
        verify=properties.get("enable.ssl.certificate.verification", "true").strip().lower() != "false",
        # An empty algorithm disables host name checks in Java, "none" in librdkafka.
        check_host=algorithm.strip().lower() not in ("", "none"),
    )


def _first_given(properties: Mapping[str, str], *names: str) -> Given | None:
    """Return the first setting given, with librdkafka's name or Java's."""
    return next((Given(name, properties[name]) for name in names if properties.get(name)), None)


def _names(properties: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in re.split("[,:]", properties.get(name, "")))))
