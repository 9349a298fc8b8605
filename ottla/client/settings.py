"""How to reach a cluster, read from client properties by the names of the Java client or of librdkafka."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError, Unsupported
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    import ssl

    from ottla.client.oauth import OAuth

DEFAULT_PORT = 9092

_JAAS_OPTION = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'|([^\s;]+))')


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificates in PEM, as files or as text."""

    ca_file: str | None = None
    ca_text: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    #: The certificate chain and its key, one after the other.
    certificate_text: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    check_host: bool = True

    def context(self) -> ssl.SSLContext:
        import ssl  # most clusters of tests and laptops need none of it

        context = ssl.create_default_context(cafile=self.ca_file, cadata=self.ca_text)
        context.check_hostname = self.verify and self.check_host
        if not self.verify:
            context.verify_mode = ssl.CERT_NONE
        if self.certificate_file is not None:
            context.load_cert_chain(self.certificate_file, self.key_file, self.key_password)
        elif self.certificate_text is not None:
            from tempfile import NamedTemporaryFile

            # Python's ssl reads certificates from files only; this one is its owner's alone, and gone at once.
            with NamedTemporaryFile("w", suffix=".pem") as file:
                file.write(self.certificate_text)
                file.flush()
                context.load_cert_chain(file.name, password=self.key_password)
        return context


@dataclass(frozen=True, slots=True)
class Kerberos:
    """Without a keytab the tickets of the user who runs this count."""

    service: str = "kafka"
    principal: str | None = None
    keytab: str | None = None


@dataclass(frozen=True, slots=True)
class Sasl:
    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    #: User and password are the id and the HMAC of a delegation token.
    is_token: bool = False
    oauth: OAuth | None = None
    kerberos: Kerberos | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """Hashable, so that callers with the same settings can share connections."""

    bootstrap: tuple[tuple[str, int], ...] = ()
    client_id: str = "ottla"
    tls: Tls | None = None
    sasl: Sasl | None = None
    request_timeout: float = 30.0
    #: For how long a retriable failure is retried.
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
        """`host:port`, with commas between them."""
        return ",".join(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.bootstrap
        )


def parse_servers(text: str) -> tuple[tuple[str, int], ...]:
    """`a:9092; b` as addresses: separated by commas, semicolons or blanks, and a port may be omitted."""
    servers = []
    for server in re.split(r"[,;\s]+", text):
        if not server:
            continue
        name, colon, port = server.rpartition(":")
        if colon and port.isdigit() and not name.endswith(":"):
            servers.append((name.strip("[]"), int(port)))
        else:
            servers.append((server.strip("[]"), DEFAULT_PORT))
    return tuple(servers)


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
        from ottla.client.oauth import oauth_settings

        oauth = oauth_settings(properties, jaas)
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
    """User name, password and the other options of a Java login module: `… required username="ann" password="…";`."""
    return {
        found[1]: re.sub(r"\\(.)", r"\1", next(group for group in found.groups()[1:] if group is not None))
        for found in _JAAS_OPTION.finditer(text)
    }


def _tls(properties: Mapping[str, str]) -> Tls | None:
    if not _protocol(properties).endswith("SSL"):
        return None
    certificate = properties.get("ssl.certificate.location", _pem_store(properties, "keystore"))
    return Tls(
        ca_file=properties.get("ssl.ca.location", _pem_store(properties, "truststore")),
        ca_text=properties.get("ssl.ca.pem", properties.get("ssl.truststore.certificates")),
        certificate_file=certificate,
        key_file=properties.get("ssl.key.location"),
        certificate_text=_certificate_text(properties),
        key_password=properties.get("ssl.key.password"),
        verify=properties.get("enable.ssl.certificate.verification", "true").lower() != "false",
        # An empty algorithm switches off the check of host names in Java, and "none" in librdkafka.
        check_host=properties.get("ssl.endpoint.identification.algorithm", "https") not in ("", "none"),
    )


def _certificate_text(properties: Mapping[str, str]) -> str | None:
    """The client's certificate as text, by librdkafka's names or by Java's."""
    certificate = properties.get("ssl.certificate.pem", properties.get("ssl.keystore.certificate.chain"))
    key = properties.get("ssl.key.pem", properties.get("ssl.keystore.key"))
    return None if certificate is None else f"{certificate}\n{key or ''}\n"


def _pem_store(properties: Mapping[str, str], store: str) -> str | None:
    """The file of a Java key store or trust store, if it is PEM: the other kinds only Java can read."""
    location = properties.get(f"ssl.{store}.location")
    if location is not None and properties.get(f"ssl.{store}.type", "JKS").upper() != "PEM":
        raise Unsupported(
            f"ssl.{store}.location must be a PEM file, and ssl.{store}.type=PEM must say so: "
            "Java's key stores cannot be read here."
        )
    return location
