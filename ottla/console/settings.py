"""The settings of the console: options of the command line, or a file in TOML.

listen = "0.0.0.0:8080"

[login]
users = "users.txt"

[[clusters]]
name = "production"
registry = "http://registry:8081"
properties = { "bootstrap.servers" = "kafka1:9092" }
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ottla.client.settings import Settings
from ottla.console.access.roles import BUILT_IN, EVERYTHING, Level, Role
from ottla.http.authentication import User

DEFAULT_LISTEN = "127.0.0.1:8080"
DEFAULT_CLUSTER = "local"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class BadSettings(ValueError):
    """An invalid setting. The message is one sentence with name and reason."""


@dataclass(frozen=True)
class ClusterSettings:
    """`properties` configure the connections to the cluster, under Kafka's names."""

    name: str
    properties: Mapping[str, str] = field(repr=False)
    registry: str | None = None
    connect: str | None = None
    sql: str | None = None
    read_only: bool = False
    #: Topics in which Connect workers store configs, including secrets.
    connect_configs: tuple[str, ...] = ("*connect-configs*",)

    @property
    def client(self) -> Settings:
        # A visitor is waiting: later answers are useless.
        patience = {"default.api.timeout.ms": "15000", "request.timeout.ms": "20000"}
        return Settings.from_properties({**patience, **self.properties}, client_id="ottla-console")


@dataclass(frozen=True)
class Mask:
    """`fields` are dotted JSON paths; a single * hides everything."""

    topics: tuple[str, ...]
    fields: tuple[str, ...]
    replace: str = "•••"
    except_roles: frozenset[str] = frozenset()


@dataclass(frozen=True)
class OidcSettings:
    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    scopes: str = "openid profile"
    roles_claim: str = "roles"
    name_claim: str = "preferred_username"
    #: Return address for the browser; by default the address it used.
    redirect_uri: str | None = None


@dataclass(frozen=True)
class ConsoleSettings:
    clusters: tuple[ClusterSettings, ...]
    host: str = "127.0.0.1"
    port: int = 8080
    read_only: bool = False
    users_file: Path | None = None
    oidc: OidcSettings | None = None
    #: Users besides those in the file.
    users: Mapping[str, User] = field(default_factory=dict, repr=False)
    #: Token of a link that logs in the first of these users, once and within an hour.
    login_token: str | None = field(default=None, repr=False)
    #: Make everyone an admin, from anywhere. Otherwise a console without logins listens only on this machine.
    no_login: bool = False
    roles: Mapping[str, Role] = field(default_factory=lambda: dict(BUILT_IN))
    masks: tuple[Mask, ...] = ()
    audit_file: Path | None = None
    #: Signs the cookies. Without it all users have to log in again after a restart.
    secret: bytes | None = field(default=None, repr=False)
    session_seconds: int = 8 * 3600
    #: ssl.* settings of an https listener.
    tls: Mapping[str, str] | None = None
    #: Additional names of the console, for browsers without a login.
    allowed_hosts: tuple[str, ...] = ()
    #: Interval of lag measurements.
    lag_seconds: float = 15.0
    #: Maximum age of displayed data.
    refresh_seconds: float = 5.0

    @property
    def asks_for_login(self) -> bool:
        return self.users_file is not None or self.oidc is not None or bool(self.users)

    def check(self) -> None:
        """Raises BadSettings."""
        if not self.clusters:
            raise BadSettings("The console needs a cluster: give --bootstrap-server or [[clusters]].")
        names = [each.name for each in self.clusters]
        for name in names:
            if _NAME.fullmatch(name) is None or names.count(name) > 1:
                raise BadSettings(
                    f"'{name}' cannot be the name of a cluster: use letters, digits, . _ - once."
                )
        open_wide = self.host not in LOOPBACK and not self.asks_for_login and not self.no_login
        if open_wide and not self.read_only:
            raise BadSettings(
                f"On {self.host} everyone with access to the console could change the cluster: add users with "
                "[login], or pass --read-only or --no-login."
            )


def parse_address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT; a port alone listens on this machine only."""
    host, separator, port = text.rpartition(":")
    if not separator:
        host, port = ("127.0.0.1", text) if text.isdecimal() else (text, "8080")
    if not port.isdecimal() or int(port) > 65535:
        raise BadSettings(f"'{text}' is not an address: write HOST:PORT, for example {DEFAULT_LISTEN}.")
    return host.strip("[]") or "0.0.0.0", int(port)


def read_file(path: Path) -> ConsoleSettings:
    """Raises BadSettings. Paths in the file are relative to it."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadSettings(f"Cannot read {path}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(f"{path} is not TOML: {error}.") from None
    try:
        return parse(document, path.parent)
    except BadSettings as error:
        raise BadSettings(f"{path}: {error}") from None


_TOP = {"listen", "read_only", "no_login", "audit_log", "secret_file", "session_hours", "lag_seconds",
        "refresh_seconds", "login", "roles", "masks", "clusters", "tls", "allowed_hosts"}  # fmt: skip


def parse(document: Mapping[str, Any], folder: Path) -> ConsoleSettings:
    _known(document, _TOP, "")
    host, port = parse_address(_text(document, "listen", DEFAULT_LISTEN))
    login = _table(document, "login")
    _known(login, {"users", "oidc"}, "login.")
    users = login.get("users")
    tls = _table(document, "tls")
    return ConsoleSettings(
        tuple(_cluster(each) for each in _tables(document, "clusters")),
        host,
        port,
        read_only=_flag(document, "read_only"),
        users_file=None if users is None else folder / str(users),
        oidc=_oidc(_table(login, "oidc"), folder) if "oidc" in login else None,
        no_login=_flag(document, "no_login"),
        roles={**BUILT_IN, **{name: _role(name, each) for name, each in _table(document, "roles").items()}},
        masks=tuple(_mask(each) for each in _tables(document, "masks")),
        audit_file=folder / _text(document, "audit_log") if "audit_log" in document else None,
        secret=_secret(folder / _text(document, "secret_file")) if "secret_file" in document else None,
        session_seconds=int(_positive(document, "session_hours", 8) * 3600),
        tls={str(name): str(value) for name, value in tls.items()} if tls else None,
        allowed_hosts=_texts(document, "allowed_hosts", ()),
        lag_seconds=_positive(document, "lag_seconds", 15),
        refresh_seconds=_positive(document, "refresh_seconds", 5),
    )


def _cluster(table: Mapping[str, Any]) -> ClusterSettings:
    names = {"name", "properties", "registry", "connect", "sql", "read_only", "connect_configs"}
    _known(table, names, "clusters.")
    properties = {str(name): str(value) for name, value in _table(table, "properties").items()}
    if not properties.get("bootstrap.servers"):
        raise BadSettings('a cluster needs properties = { "bootstrap.servers" = "HOST:PORT" }.')
    name = _text(table, "name", DEFAULT_CLUSTER)
    urls = {key: check_url(key, table.get(key)) for key in ("registry", "connect", "sql")}
    return ClusterSettings(
        name,
        properties,
        **urls,
        read_only=_flag(table, "read_only"),
        connect_configs=_texts(table, "connect_configs", ClusterSettings.connect_configs),
    )


def check_url(name: str, url: object) -> str | None:
    if url is None:
        return None
    if (
        not isinstance(url, str)
        or urlsplit(url).scheme not in ("http", "https")
        or not urlsplit(url).hostname
    ):
        raise BadSettings(f"{name} must be a URL such as http://localhost:8081, not {url}.")
    return url.rstrip("/")


def _oidc(table: Mapping[str, Any], folder: Path) -> OidcSettings:
    known = {"issuer", "client_id", "client_secret", "client_secret_file", "scopes", "roles_claim",
             "name_claim", "redirect_uri"}  # fmt: skip
    _known(table, known, "login.oidc.")
    for name in ("issuer", "client_id"):
        if name not in table:
            raise BadSettings(f"login.oidc.{name} is missing.")
    secret = _text(table, "client_secret", "")
    if "client_secret_file" in table:
        secret = _secret(folder / _text(table, "client_secret_file")).decode().strip()
    rest = {name: _text(table, name) for name in known if name in table and "secret" not in name}
    return OidcSettings(client_secret=secret, **rest)


def _role(name: str, table: object) -> Role:
    if not isinstance(table, dict):
        raise BadSettings(
            f'roles.{name} must be a table such as {{ may = "operator", topics = ["orders-*"] }}.'
        )
    _known(table, {"may", "topics", "groups", "schemas", "connectors", "sql"}, f"roles.{name}.")
    may = _text(table, "may")
    if may not in BUILT_IN:
        raise BadSettings(f"roles.{name}.may must be one of {', '.join(BUILT_IN)}, not {may}.")
    lists = {key: _texts(table, key) if key in table else None for key in ("groups", "schemas", "connectors")}
    # A role that lists groups or schemas covers only those.
    is_limited = lists["groups"] is not None or lists["schemas"] is not None
    topics = _texts(table, "topics", () if is_limited else EVERYTHING)
    sql = _flag(table, "sql") if "sql" in table else None
    return Role(name, Level[may.upper()], topics, **lists, sql=sql)


def _mask(table: Mapping[str, Any]) -> Mask:
    _known(table, {"topics", "fields", "replace", "except_roles"}, "masks.")
    if "topics" not in table or "fields" not in table:
        raise BadSettings("a mask needs topics and fields.")
    return Mask(
        _texts(table, "topics"),
        _texts(table, "fields"),
        _text(table, "replace", "•••"),
        frozenset(_texts(table, "except_roles", ())),
    )


def _secret(path: Path) -> bytes:
    try:
        secret = path.read_bytes()
    except OSError as error:
        raise BadSettings(f"Cannot read {path}: {error.strerror}.") from None
    if len(secret) < 16:
        raise BadSettings(f"{path} has fewer than 16 bytes. Use a longer secret.")
    return secret


def _known(table: Mapping[str, Any], names: set[str], prefix: str) -> None:
    for name in table:
        if name not in names:
            raise BadSettings(f"there is no setting {prefix}{name}.")


def _table(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = table.get(name, {})
    if not isinstance(found, dict):
        raise BadSettings(f"{name} must be a table.")
    return found


def _tables(table: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = table.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise BadSettings(f"{name} must be written as [[{name}]].")
    return found


def _text(table: Mapping[str, Any], name: str, default: str | None = None) -> str:
    found = table.get(name, default)
    if not isinstance(found, str):
        raise BadSettings(f"{name} must be a text.")
    return found


def _texts(table: Mapping[str, Any], name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
    found = table.get(name, default)
    if isinstance(found, str) or not isinstance(found, (list, tuple)):
        raise BadSettings(f"{name} must be a list of texts.")
    return tuple(str(each) for each in found)


def _positive(table: Mapping[str, Any], name: str, default: float) -> float:
    found = table.get(name, default)
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 < found < 1e9:
        raise BadSettings(f"{name} must be a number above 0.")
    return float(found)


def _flag(table: Mapping[str, Any], name: str) -> bool:
    found = table.get(name, False)
    if not isinstance(found, bool):
        raise BadSettings(f"{name} must be true or false.")
    return found
