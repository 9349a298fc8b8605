"""Database dialects. `dialect_for` chooses one by `connection.url`."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.connect.config.config_def import invalid
from ottla.connect.connectors.jdbc.dialects.dialect import Dialect
from ottla.connect.connectors.jdbc.urls import parse_url
from ottla.connect.errors import ConnectError, RetriableError


def dialect_for(config: Mapping[str, str], name: str = "") -> Dialect:
    """Choose a dialect by `dialect.name` (Confluent's, such as PostgreSqlDatabaseDialect) or by the URL."""
    target = parse_url(config["connection.url"])
    target.user = config.get("connection.user") or target.user
    target.password = config.get("connection.password") or target.password
    target.timezone = config.get("db.timezone") or "UTC"
    chosen = _BY_NAME.get(name.removesuffix("DatabaseDialect").lower(), "") if name else target.product
    if chosen == "postgresql":
        from ottla.connect.connectors.jdbc.dialects.postgres import PostgresDialect

        return PostgresDialect(target)
    if chosen in ("mysql", "mariadb"):
        from ottla.connect.connectors.jdbc.dialects.mysql import MySqlDialect

        return MySqlDialect(target)
    if chosen == "sqlite":
        from ottla.connect.connectors.jdbc.dialects.sqlite import SqliteDialect

        return SqliteDialect(target)
    raise invalid("dialect.name", name, f"There are {', '.join(DIALECT_NAMES)}.")


_BY_NAME = {"postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql", "sqlite": "sqlite"}
DIALECT_NAMES = ("PostgreSqlDatabaseDialect", "MySqlDatabaseDialect", "SqliteDatabaseDialect")


def refusals(config: Mapping[str, str], name: str = "") -> dict[str, list[str]]:
    """Return why the database refuses this config. One that cannot be reached now may be reached later."""
    dialect = dialect_for(config, name)
    if dialect.target.product == "sqlite":  # has no login, and a connection would create the file
        return {}
    try:
        assert dialect.connection is not None
    except RetriableError:
        return {}
    except ConnectError as error:
        return {"connection.url": [error.message]}
    finally:
        dialect.close()
    return {}
