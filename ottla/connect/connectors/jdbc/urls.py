"""JDBC connection URLs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from ottla.connect.config.config_def import ConfigError, invalid

DEFAULT_PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306}
PRODUCTS = {"postgresql": "PostgreSQL", "mysql": "MySQL", "mariadb": "MariaDB", "sqlite": "SQLite"}


@dataclass
class Target:
    """The address of a database. For SQLite, `database` is the file path."""

    product: str
    host: str = ""
    port: int = 0
    database: str = ""
    user: str | None = None
    password: str | None = None
    timezone: str = "UTC"
    options: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return a description for messages, without the password."""
        name = PRODUCTS[self.product]
        if self.product == "sqlite":
            return f"{name} file {self.database}"
        return f"{name} database {self.database!r} at {self.host}:{self.port}"


def database_file(config: Mapping[str, str]) -> dict[str, str]:
    """Return the path of a SQLite database file, by setting name."""
    try:
        target = parse_url(config.get("connection.url") or "")
    except ConfigError:
        return {}
    # dialect.name can turn the database of any URL into a file.
    is_file = target.product == "sqlite" or "sqlite" in (config.get("dialect.name") or "").lower()
    return {"connection.url": target.database} if is_file and target.database != ":memory:" else {}


def parse_url(url: str) -> Target:
    scheme, _, rest = url.removeprefix("jdbc:").partition(":")
    if not url.startswith("jdbc:") or scheme not in PRODUCTS:
        known = "jdbc:postgresql://host:port/database, jdbc:mariadb://…, jdbc:mysql://… or jdbc:sqlite:/path"
        raise invalid("connection.url", url, f"Write {known}.")
    if scheme == "sqlite":
        path, _, query = rest.partition("?")
        if not path:
            raise invalid("connection.url", url, "The path of the database's file is missing.")
        return Target(scheme, database=path, options=dict(parse_qsl(query)))
    if not rest.startswith("//"):
        # PostgreSQL's driver accepts jdbc:postgresql:database for localhost.
        rest = f"//localhost/{rest.removeprefix('/')}"
    parts = urlsplit(f"{scheme}:{rest}")
    try:
        port = parts.port or DEFAULT_PORTS[scheme]
    except ValueError:
        raise invalid("connection.url", url, "The port is not a number from 1 to 65535.") from None
    options = dict(parse_qsl(parts.query))
    user, password = options.pop("user", None), options.pop("password", None)
    return Target(
        scheme,
        parts.hostname or "localhost",
        port,
        unquote(parts.path.removeprefix("/")),
        user or (unquote(parts.username) if parts.username else None),
        password or (unquote(parts.password) if parts.password else None),
        options=options,
    )
