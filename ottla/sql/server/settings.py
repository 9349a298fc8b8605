"""Server settings with the names used in ksql-server.properties."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ottla.client.errors import ClientError
from ottla.client.http_login import KafkaLogin
from ottla.client.settings import Settings
from ottla.http.authentication import Authenticate, BadPasswordFile, BasicAuthentication, read_password_file
from ottla.http.cross_site import names_of
from ottla.http.tls import BadTlsSettings, server_tls
from ottla.sql.properties import KNOWN, registry_properties
from ottla.sql.server.server import Listener

DEFAULT_LISTENERS = "http://127.0.0.1:8088"
DEFAULT_SERVICE_ID = "default_"
_PREFIX = "ksql.streams."
_REGISTRY = "ksql.schema.registry."
_OWN = (
    "listeners", "bootstrap.servers", "ksql.service.id", "ksql.streams.state.dir", "authentication.method",
    "authentication.realm", "authentication.roles", "authentication.skip.paths", "authentication.users.file",
    "ssl.client.authentication", "ssl.client.auth", "allowed.hosts",
)  # fmt: skip


class BadSettings(ValueError):
    """A setting is invalid. The message names it."""


@dataclass(frozen=True)
class ServerSettings:
    listeners: list[Listener]
    service_id: str
    bootstrap_servers: str | None
    checkpoints: str | None
    authenticate: Authenticate | None
    client: dict[str, str] = field(repr=False)  # Kafka client properties
    ignored: list[str]
    schema_registry: dict[str, str] = field(default_factory=dict, repr=False)
    names: tuple[str, ...] = ()
    defaults: dict[str, str] = field(default_factory=dict)  # of session properties


def read_settings(given: Mapping[str, str]) -> ServerSettings:
    """Raises BadSettings."""
    tls_given = {name: value for name, value in given.items() if name.startswith("ssl.")}
    client = {
        name.removeprefix(_PREFIX): value
        for name, value in given.items()
        if name not in _OWN and name not in tls_given and (name.startswith((_PREFIX, "sasl.", "security.")))
    }
    registry = {name: value for name, value in given.items() if name.startswith(_REGISTRY)}
    defaults = {name: value for name, value in given.items() if name in KNOWN}
    for name, value in defaults.items():
        allowed = KNOWN[name][1]
        if allowed and value not in allowed:
            raise BadSettings(f"{name} is {' or '.join(allowed)}, not '{value}'.")
    known = {*_OWN, *tls_given, *registry, *defaults}
    ignored = [
        name
        for name in given
        if name not in known and name.removeprefix(_PREFIX) not in client and not name.startswith("ottla.")
    ]
    return ServerSettings(
        _listeners(given.get("listeners", DEFAULT_LISTENERS), tls_given),
        given.get("ksql.service.id", DEFAULT_SERVICE_ID),
        given.get("bootstrap.servers"),
        given.get("ksql.streams.state.dir"),
        _authentication(given, client),
        client,
        ignored,
        registry_properties(registry),
        names_of(given),
        defaults,
    )


def _listeners(text: str, tls_given: Mapping[str, str]) -> list[Listener]:
    found = []
    context: ssl.SSLContext | None = None
    for each in text.split(","):
        url = urlsplit(each.strip())
        try:
            host, port = url.hostname, url.port
        except ValueError:
            host = port = None
        if url.scheme not in ("http", "https") or not host or port is None or url.path.strip("/"):
            raise BadSettings(
                f"listeners has '{each.strip()}', which is not http://HOST:PORT or https://HOST:PORT."
            )
        if url.scheme == "https" and context is None:
            context = _tls(tls_given)
        found.append(Listener(host, port, context if url.scheme == "https" else None))
    return found


def _tls(given: Mapping[str, str]) -> ssl.SSLContext:
    try:
        return server_tls(given)
    except BadTlsSettings as error:
        raise BadSettings(str(error)) from None


def _authentication(given: Mapping[str, str], client: Mapping[str, str]) -> Authenticate | None:
    method = given.get("authentication.method", "NONE").upper()
    if method == "NONE":
        return None
    if method == "KAFKA":
        return _kafka_login({**client, "bootstrap.servers": given.get("bootstrap.servers", "localhost:9092")})
    if method != "BASIC":
        raise BadSettings(f"authentication.method {method} is unknown. Use NONE, BASIC or KAFKA.")
    file = given.get("authentication.users.file")
    if file is None:
        raise BadSettings(
            "authentication.method=BASIC needs authentication.users.file, with lines of 'user: password,role'."
        )
    try:
        users = read_password_file(Path(file))
    except BadPasswordFile as error:
        raise BadSettings(str(error)) from None
    return BasicAuthentication(
        users,
        realm=given.get("authentication.realm", "ksql"),
        roles=_words(given.get("authentication.roles", "*")),
        skip_paths=_words(given.get("authentication.skip.paths", "")),
    )


def _kafka_login(client: Mapping[str, str]) -> KafkaLogin:
    try:
        return KafkaLogin(Settings.from_properties(client, client_id="ottla-sql"), realm="ksql")
    except ClientError as error:
        raise BadSettings(error.message) from None


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
