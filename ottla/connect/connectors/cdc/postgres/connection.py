"""Connections to the captured database. Their sessions use the text formats that `types.py` reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import pq

from ottla.connect.connectors.database_errors import CDC_SETTINGS, postgres_error
from ottla.connect.connectors.jdbc.urls import Target
from ottla.connect.errors import ConnectError

_SESSION = (
    "-c datestyle=ISO -c intervalstyle=iso_8601 -c timezone=UTC -c bytea_output=hex -c extra_float_digits=1 "
    "-c statement_timeout=0 -c client_encoding=UTF8"
)


class Server:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.target = Target(
            "postgresql",
            settings["database.hostname"],
            settings["database.port"],
            settings["database.dbname"],
            settings["database.user"],
            settings["database.password"],
        )
        self._login = {
            "host": self.target.host,
            "port": str(self.target.port),
            "dbname": self.target.database,
            "user": self.target.user,
            "password": self.target.password,
            "sslmode": settings["database.sslmode"],
            "application_name": "ottla-connect",
            "options": _SESSION,
            "connect_timeout": "10",
        }
        for ours, name in (
            ("database.sslcert", "sslcert"),
            ("database.sslkey", "sslkey"),
            ("database.sslrootcert", "sslrootcert"),
        ):
            if settings[ours]:
                self._login[name] = settings[ours]

    def connect(self, *, autocommit: bool = True) -> psycopg.Connection[Any]:
        try:
            return psycopg.connect(**self._login, autocommit=autocommit)
        except psycopg.Error as error:
            raise self.explained(error, "connect") from error

    def explained(self, error: Exception, doing: str) -> ConnectError:
        return postgres_error(error, self.target, doing, CDC_SETTINGS)

    def replication_command(self, command: str) -> tuple[pq.abc.PGconn, list[str]]:
        """Run one replication command. Return the connection and the row of the answer."""
        info = psycopg.conninfo.make_conninfo(**self._login, replication="database")
        connection = pq.PGconn.connect(info.encode())
        if connection.status != pq.ConnStatus.OK:
            message = connection.error_message.decode(errors="replace")
            connection.finish()
            if "replication role" in message or "WAL sender" in message:
                raise psycopg.errors.InsufficientPrivilege(message)
            raise self.explained(psycopg.OperationalError(message), "connect")
        result = connection.exec_(command.encode())
        if result.status != pq.ExecStatus.TUPLES_OK:
            error = psycopg.errors.error_from_result(result)
            connection.finish()
            raise error
        return connection, [(result.get_value(0, number) or b"").decode() for number in range(result.nfields)]
