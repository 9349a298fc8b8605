"""Reads the changes after a binary log position, transaction by transaction."""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

import pymysql
from pymysql.constants import CR
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import GtidEvent, MariadbGtidEvent, QueryEvent, RotateEvent, XidEvent
from pymysqlreplication.row_event import DeleteRowsEvent, TableMapEvent, UpdateRowsEvent, WriteRowsEvent

from ottla.connect.connectors.cdc.mysql.connection import Server
from ottla.connect.errors import ConnectError

_EVENTS = [
    GtidEvent, MariadbGtidEvent, QueryEvent, RotateEvent, XidEvent, DeleteRowsEvent, TableMapEvent, UpdateRowsEvent,
    WriteRowsEvent,
]  # fmt: skip
_TRUNCATE = re.compile(r"\s*TRUNCATE\s+(?:TABLE\s+)?(?:`?([^`.\s]+)`?\.)?`?([^`.\s;]+)`?", re.IGNORECASE)


class _Connecting:
    """Opens exactly two connections for the reader: one for the log, one for the dictionary.

    The reader would replace a lost connection and continue in the middle of a transaction. It would then lack the table
    map for the next rows and skip them silently. We restart at the transaction instead.
    """

    def __init__(self) -> None:
        self._left = 2

    def __call__(self, **login: Any) -> Any:
        if self._left == 0:
            raise pymysql.err.OperationalError(CR.CR_SERVER_LOST, "Lost connection to the server")
        self._left -= 1
        # PyMySQL no longer accepts the parameter name that the reader uses.
        return pymysql.connect(database=login.pop("db", None), **login)


class Position(NamedTuple):
    """Everything before this position is done, plus `changes` row changes of the transaction that starts here."""

    file: str
    pos: int
    changes: int = 0


class Transaction(NamedTuple):
    """The start of a transaction."""

    gtid: str | None
    #: The server's clock in microseconds since 1970. The log has a resolution of seconds.
    time: int
    server_id: int
    #: Start of the transaction. For the first one in a file this is after the header.
    pos: int = 0


class Change(NamedTuple):
    table: Any
    #: Number of the change within the transaction, from 1.
    number: int
    op: str
    before: list[Any] | None
    after: list[Any] | None
    #: Position of the event, and index of the row in it.
    pos: int
    row: int


class Truncated(NamedTuple):
    database: str
    table: str
    number: int
    pos: int


class End(NamedTuple):
    """Everything before `file` and `pos` is done."""

    file: str
    pos: int
    #: Whether table definitions may have changed.
    changes_tables: bool = False


Item = Transaction | Change | Truncated | End


class Stream:
    def __init__(self, server: Server, settings: Mapping[str, Any]) -> None:
        self._server = server
        # Every reader and replica of a server needs a unique id.
        self._id = (
            settings["database.server.id"] or 5400 + zlib.crc32(settings["topic.prefix"].encode()) % 1_000_000
        )
        self._reader: BinLogStreamReader | None = None

    def read(self, position: Position) -> Generator[Item, None, None]:
        self.close()
        self._reader = BinLogStreamReader(
            connection_settings=dict(self._server.login),
            server_id=self._id,
            log_file=position.file,
            log_pos=position.pos,
            resume_stream=True,
            blocking=False,
            only_events=_EVENTS,
            enable_logging=False,
            pymysql_wrapper=_Connecting(),
        )
        try:
            yield from self._items(self._reader, position)
        except pymysql.err.OperationalError as error:
            if error.args[0] == 1236:
                raise ConnectError(
                    f"The server has removed its binary log at {position.file}, position {position.pos}, so changes "
                    "are lost: reset the connector's offsets to begin with a new snapshot, and let the server keep "
                    f"its log longer (binlog_expire_logs_seconds). It says: {error.args[1]}."
                ) from None
            raise
        finally:
            self.close()

    def _items(self, reader: BinLogStreamReader, position: Position) -> Generator[Item, None, None]:
        number, done, is_open = 0, position.changes, False
        for event in reader:
            packet = event.packet
            start = packet.log_pos - packet.event_size
            if isinstance(event, GtidEvent | MariadbGtidEvent):
                number, is_open = 0, True
                yield Transaction(event.gtid, event.timestamp * 1_000_000, packet.server_id, start)
            elif isinstance(event, RotateEvent):
                if not is_open:
                    yield End(event.next_binlog, event.position)
            elif isinstance(event, XidEvent):
                done, is_open = 0, False
                yield End(reader.log_file, packet.log_pos)
            elif isinstance(event, QueryEvent):
                statement = event.query.strip()
                if statement.upper() == "BEGIN":
                    continue
                truncated = _TRUNCATE.match(statement)
                if truncated:
                    number += 1
                    if number > done:
                        database = truncated.group(1) or event.schema.decode()
                        yield Truncated(database, truncated.group(2), number, start)
                # DDL statements end their transaction implicitly, and COMMIT ends it explicitly.
                if not statement.upper().startswith(("SAVEPOINT", "ROLLBACK TO", "RELEASE")):
                    done, is_open = 0, False
                    yield End(reader.log_file, packet.log_pos, statement.upper() != "COMMIT")
            elif isinstance(event, WriteRowsEvent | UpdateRowsEvent | DeleteRowsEvent):
                table = reader.table_map[event.table_id]
                for row_number, row in enumerate(event.rows):
                    number += 1
                    if number > done:
                        yield self._change(event, table, row, number, start, row_number)

    @staticmethod
    def _change(
        event: Any, table: Any, row: Mapping[str, Any], number: int, pos: int, row_number: int
    ) -> Change:
        if isinstance(event, WriteRowsEvent):
            return Change(table, number, "c", None, list(row["values"].values()), pos, row_number)
        if isinstance(event, DeleteRowsEvent):
            return Change(table, number, "d", list(row["values"].values()), None, pos, row_number)
        before, after = list(row["before_values"].values()), list(row["after_values"].values())
        return Change(table, number, "u", before, after, pos, row_number)

    def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            with contextlib.suppress(pymysql.MySQLError, OSError):
                reader.close()
