"""Turns database driver errors into one sentence with advice, for JDBC and change data capture."""

from __future__ import annotations

from typing import Any

from ottla.connect.connectors.jdbc.urls import PRODUCTS, Target
from ottla.connect.errors import ConnectError, RetriableError


class SettingNames:
    """The connector's setting names, for advice."""

    def __init__(self, host: str, user: str, password: str, database: str) -> None:
        self.host = host
        self.user = user
        self.password = password
        self.database = database


JDBC_SETTINGS = SettingNames("connection.url", "connection.user", "connection.password", "connection.url")
CDC_SETTINGS = SettingNames(
    "database.hostname and database.port", "database.user", "database.password", "database.dbname"
)


#: Hints that libpq appends to errors.
_HINTS = (" Is the server running", " This probably means", " DETAIL: ", " HINT: ")


def one_line(error: object) -> str:
    text = " ".join(str(error).split())
    for hint in _HINTS:
        text = text.partition(hint)[0]
    return text.rstrip(".")


def unreachable(target: Target, why: object, names: SettingNames) -> RetriableError:
    return RetriableError(
        f"Cannot reach {PRODUCTS[target.product]} at {target.host}:{target.port}: {one_line(why)}. "
        f"Check {names.host}, and that the server runs."
    )


def refused_login(target: Target, why: object, names: SettingNames) -> ConnectError:
    return ConnectError(
        f"{PRODUCTS[target.product]} at {target.host}:{target.port} refuses the login: {one_line(why)}. "
        f"Check {names.user} and {names.password}."
    )


def unknown_database(target: Target, names: SettingNames) -> ConnectError:
    return ConnectError(
        f"{PRODUCTS[target.product]} at {target.host}:{target.port} has no database {target.database!r}. "
        f"Check {names.database}."
    )


def missing_privilege(target: Target, doing: str, why: object) -> ConnectError:
    return ConnectError(f"Cannot {doing} in {target}: {one_line(why)}. Grant this to user {target.user!r}.")


def failed(target: Target, doing: str, why: object, *, retriable: bool = False) -> ConnectError:
    error = RetriableError if retriable else ConnectError
    return error(f"Cannot {doing} in {target}: {one_line(why)}.")


def postgres_error(
    error: Exception, target: Target, doing: str, names: SettingNames = JDBC_SETTINGS
) -> ConnectError:
    import psycopg

    text = one_line(error)
    if isinstance(error, psycopg.OperationalError):
        after_fatal = text.partition("FATAL: ")[2].strip()
        if "password authentication failed" in text or "no password supplied" in text or "pg_hba" in text:
            return refused_login(target, after_fatal or text, names)
        if 'role "' in text and "does not exist" in text:
            return refused_login(target, after_fatal or text, names)
        if 'database "' in text and "does not exist" in text:
            return unknown_database(target, names)
        if error.sqlstate is None or error.sqlstate.startswith(("08", "57P")):
            return unreachable(target, after_fatal or text.rpartition("failed: ")[2] or text, names)
        return failed(target, doing, text, retriable=True)
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return missing_privilege(target, doing, error.diag.message_primary or text)
    said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    if isinstance(error, psycopg.errors.DeadlockDetected | psycopg.errors.SerializationFailure):
        return failed(target, doing, said or text, retriable=True)
    detail = error.diag.message_detail if isinstance(error, psycopg.Error) else None
    return failed(target, doing, f"{said} ({one_line(detail)})" if said and detail else said or text)


#: MySQL and MariaDB: unknown host, connection refused or lost, server shutdown, too many connections, deadlock, lock
#: wait timeout.
_MYSQL_PASSING = {1040, 1053, 1205, 1213, 2002, 2003, 2006, 2013, 2055}
_MYSQL_PRIVILEGE = {1044, 1142, 1143, 1227, 1370}


def mysql_error(
    error: Exception, target: Target, doing: str, names: SettingNames = JDBC_SETTINGS
) -> ConnectError:
    import pymysql

    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    said = error.args[1] if len(error.args) > 1 else str(error)
    if code == 1045 or code == 1698:
        return refused_login(target, said, names)
    if code == 1049:
        return unknown_database(target, names)
    is_lost = (
        isinstance(error, OSError | pymysql.err.InterfaceError | pymysql.err.OperationalError) and code == 0
    )
    if code in (2002, 2003, 2006, 2013) or is_lost:
        return unreachable(target, said or "the connection is lost", names)
    if code in _MYSQL_PRIVILEGE:
        return missing_privilege(target, doing, said)
    return failed(target, doing, said, retriable=code in _MYSQL_PASSING)


def drop_cursor(cursor: Any) -> None:
    """Discard a PyMySQL cursor with unread rows before dropping its connection. Closing it would read them all."""
    result = cursor._result
    if result is not None:
        result.unbuffered_active = False
    cursor._result = cursor.connection = None
