"""Connections to the server with the captured binary log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pymysql

from ottla.connect.connectors.database_errors import SettingNames, mysql_error
from ottla.connect.connectors.jdbc.urls import Target
from ottla.connect.errors import ConnectError

_NAMES = SettingNames(
    "database.hostname and database.port", "database.user", "database.password", "database.include.list"
)


class Server:
    def __init__(self, settings: Mapping[str, Any], product: str) -> None:
        self.target = Target(
            product,
            settings["database.hostname"],
            settings["database.port"],
            "",
            settings["database.user"],
            settings["database.password"],
        )
        mode = settings["database.ssl.mode"].lower()
        self.login: dict[str, Any] = {
            "host": self.target.host,
            "port": self.target.port,
            "user": self.target.user,
            # PyMySQL would encode a str as Latin 1.
            "password": (self.target.password or "").encode(),
            "charset": "utf8mb4",
            "connect_timeout": 10,
            "ssl": {"check_hostname": mode == "verify_identity"}
            if mode not in ("disable", "disabled", "preferred", "prefer")
            else None,
        }

    def connect(self, *, autocommit: bool = True) -> Any:
        try:
            return pymysql.connect(
                **self.login,
                autocommit=autocommit,
                init_command="SET time_zone = '+00:00', SESSION wait_timeout = 86400",
            )
        except pymysql.MySQLError as error:
            raise self.explained(error, "connect") from error

    def explained(self, error: Exception, doing: str) -> ConnectError:
        return mysql_error(error, self.target, doing, _NAMES)


def rows_of(connection: Any, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return list(cursor.fetchall())


def check_server(connection: Any, server: Server) -> bool:
    """Raise an error if the server cannot be captured. Return True for MariaDB."""
    wanted = ("version", "log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata")
    found = {
        name.lower(): value
        for name, value in rows_of(connection, "SHOW GLOBAL VARIABLES WHERE Variable_name IN %s", [wanted])
    }
    where = f"{server.target.host}:{server.target.port}"
    if found.get("log_bin", "OFF").upper() not in ("ON", "1"):
        raise ConnectError(
            f"The server at {where} writes no binary log: set log_bin and server_id, and restart it."
        )
    for name, value in (
        ("binlog_format", "ROW"),
        ("binlog_row_image", "FULL"),
        ("binlog_row_metadata", "FULL"),
    ):
        if name not in found:
            raise ConnectError(
                f"The server at {where} is too old to name columns in its binary log ({name} is missing): MariaDB 10.5 "
                "and MySQL 8.0.14 are the first that can."
            )
        if found[name].upper() != value:
            raise ConnectError(
                f"The server at {where} has {name}={found[name]}, but changes are captured only with {name}={value}: "
                f"run SET GLOBAL {name}={value}, set it in the server's configuration, and begin with a new snapshot."
            )
    return "mariadb" in found.get("version", "").lower()


def binlog_position(connection: Any) -> tuple[str, int]:
    try:
        rows = rows_of(connection, "SHOW MASTER STATUS")
    except pymysql.err.ProgrammingError:
        rows = rows_of(connection, "SHOW BINARY LOG STATUS")
    if not rows:
        raise ConnectError("The server writes no binary log: set log_bin and server_id, and restart it.")
    return rows[0][0], int(rows[0][1])
