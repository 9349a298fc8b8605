"""kafka-rest.properties, under Confluent's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ottla.client.settings import Settings
from ottla.http.cross_site import names_of

DEFAULT_PORT = 8082

#: Prefix for all kinds of clients; more specific prefixes take precedence.
_CLIENT_PREFIX = "client."
_AUTHENTICATION = ("NONE", "BASIC", "PROPAGATE")


class BadSettings(ValueError):
    """An invalid setting. The message is one sentence with name and reason."""


@dataclass(frozen=True)
class RestSettings:
    """`properties` configure the connections to the cluster, under Kafka's names."""

    properties: Mapping[str, str]
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    #: NONE; BASIC checks users of a password file; PROPAGATE logs in to the cluster as the caller.
    authentication: str = "NONE"
    password_file: str | None = None
    schema_registry_url: str | None = None
    consumer_instance_timeout: float = 300.0
    consumer_request_timeout: float = 1.0
    consumer_request_max_bytes: int = 64 * 1024 * 1024
    max_consumers: int = 2000
    max_body: int = 32 * 1024 * 1024
    #: ssl.* settings of an https listener.
    tls: Mapping[str, str] | None = None
    #: Log in to the registry as the caller, too.
    registry_as_caller: bool = False
    #: Names of the proxy, for callers without a login.
    names: tuple[str, ...] = ()

    @property
    def cluster(self) -> Settings:
        return Settings.from_properties(self.properties, client_id="ottla-rest")

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> RestSettings:
        host, port, is_secure = _listener(given.get("listeners", f"http://0.0.0.0:{DEFAULT_PORT}"))
        properties = {
            name.removeprefix(_CLIENT_PREFIX): value
            for name, value in given.items()
            if name.startswith(_CLIENT_PREFIX)
        }
        properties["bootstrap.servers"] = _servers(given)
        authentication = given.get("authentication.method", "NONE").strip().upper() or "NONE"
        if authentication not in _AUTHENTICATION:
            raise BadSettings(
                f"authentication.method must be one of {', '.join(_AUTHENTICATION)}, not {authentication}."
            )
        if authentication == "BASIC" and not given.get("ottla.password.file"):
            raise BadSettings("authentication.method=BASIC needs ottla.password.file.")
        return cls(
            properties,
            host,
            port,
            authentication,
            given.get("ottla.password.file"),
            given.get("schema.registry.url"),
            _milliseconds(given, "consumer.instance.timeout.ms", 300_000),
            _milliseconds(given, "consumer.request.timeout.ms", 1_000),
            _number(given, "consumer.request.max.bytes", 64 * 1024 * 1024),
            tls={name: value for name, value in given.items() if name.startswith("ssl.")}
            if is_secure
            else None,
            registry_as_caller=_registry_as_caller(given, authentication),
            names=(given.get("host.name", ""), *names_of(given)),
        )


def _registry_as_caller(given: Mapping[str, str], authentication: str) -> bool:
    source = given.get("schema.registry.basic.auth.credentials.source", "URL").strip().upper()
    if source not in ("URL", "PROPAGATE"):
        raise BadSettings(
            f"schema.registry.basic.auth.credentials.source {source} is unknown. Use URL or PROPAGATE."
        )
    if source == "PROPAGATE" and authentication != "PROPAGATE":
        raise BadSettings(
            "schema.registry.basic.auth.credentials.source=PROPAGATE needs authentication.method=PROPAGATE."
        )
    return source == "PROPAGATE"


def _servers(given: Mapping[str, str]) -> str:
    # Confluent's file has a protocol prefix: PLAINTEXT://host:9092.
    servers = given.get("bootstrap.servers", "").strip()
    if not servers:
        raise BadSettings("bootstrap.servers is missing: say where the cluster is.")
    return ",".join(each.strip().rpartition("//")[2] for each in servers.split(",") if each.strip())


def _listener(text: str) -> tuple[str, int, bool]:
    parts = urlsplit(text.split(",")[0].strip())
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in ("http", "https") or port is None:
        raise BadSettings(f"listeners must be like http://0.0.0.0:{DEFAULT_PORT}, not {text}.")
    return parts.hostname or "0.0.0.0", port, parts.scheme == "https"


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, str(default)).strip()
    if not text.isdigit():
        raise BadSettings(f"{name} must be a number, not {text}.")
    return int(text)


def _milliseconds(given: Mapping[str, str], name: str, default: int) -> float:
    return _number(given, name, default) / 1000
