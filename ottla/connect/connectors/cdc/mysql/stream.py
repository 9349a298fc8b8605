"""Reads the changes behind a position of the binary log, transaction by transaction."""

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
    """Opens the reader's two connections, for the log and for the dictionary, and no more.

    It would open a lost one again by itself, and go on in the middle of a transaction, without the description of the
    table whose rows come next: these it passes over silently. We begin again with the transaction instead.
    """

    def __init__(self) -> None:
        self._left = 2

    def __call__(self, **login: Any) -> Any:
        if self._left == 0:
            raise pymysql.err.OperationalError(CR.CR_SERVER_LOST, "Lost connection to the server")
        self._left -= 1
        # PyMySQL does not want the name any more that the reader uses.
        return pymysql.connect(database=login.pop("db", None), **login)


class Position(NamedTuple):
    """Everything before is done, and of the transaction that begins there `changes` changes of rows."""

    file: str
    pos: int
    changes: int = 0


class Transaction(NamedTuple):
    """Begins."""

    gtid: str | None
    #: Of the server's clock, in microseconds since 1970; the log knows seconds.
    time: int
    server_id: int
    #: Where it begins, which is behind the head of the file for the first one.
    pos: int = 0


class Change(NamedTuple):
    table: Any
    #: Which change of the transaction it is, from 1.
    number: int
    op: str
    before: list[Any] | None
    after: list[Any] | None
    #: Where the event stands, and which of its rows it is.
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
    #: Whether tables may look different from now on.
    changes_tables: bool = False


Item = Transaction | Change | Truncated | End


class Stream:
    def __init__(self, server: Server, settings: Mapping[str, Any]) -> None:
        self._server = server
        # Readers of one server must have ids of their own; so must its replicas.
        self._id = (
            settings["database.server.id"] or 5400 + zlib.crc32(settings["topic.prefix"].encode()) % 1_000_000
        )
        self._reader: BinLogStreamReader | None = None

    def read(self, position: Position) -> Generator[Item, None, None]:
        """What there is now."""
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
                # Statements that change tables end their transaction themselves; so does COMMIT.
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
