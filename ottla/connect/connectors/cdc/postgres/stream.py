"""Reads the changes after a position from the slot, transaction by transaction, without consuming them.

`pg_logical_slot_peek_binary_changes` returns whole transactions in commit order, starting at the slot's confirmed
position. It returns unconfirmed changes again. The stream skips them by the position of the last whole transaction and,
within a partly read transaction, by the number of changes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from ottla.connect.connectors.cdc.postgres.connection import Server
from ottla.connect.connectors.cdc.postgres.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    Relation,
    Truncate,
    Update,
    decode,
    parse_lsn,
)
from ottla.connect.connectors.cdc.postgres.slots import Slot


class Position(NamedTuple):
    """Transactions committed before `commit_end` are done, as is the start of the next one."""

    commit_end: int
    #: Number of changes done in the next transaction.
    changes: int = 0
    #: Log position up to which Debezium has published the next transaction.
    lsn: int = 0


class Change(NamedTuple):
    lsn: int
    #: Number of the change within the transaction, from 1.
    number: int
    message: Insert | Update | Delete | Truncate


class Stream:
    def __init__(self, server: Server, slot: Slot, settings: Mapping[str, Any]) -> None:
        self._server = server
        self._slot = slot
        self._publication = settings["publication.name"]
        self._least = self._wanted = settings["max.queue.size"]
        self._connection: psycopg.Connection[Any] | None = None
        #: Position of the current transaction's first change.
        self.begin_lsn = 0
        #: True if the last read has seen the end of the log.
        self.reached_end = False

    def read(self, position: Position) -> Iterator[Begin | Commit | Relation | Change]:
        """Yield the changes available now. Relations precede the changes that they describe."""
        found_new, number, seen = False, 0, 0
        is_done, is_first, done = True, True, 0
        for lsn, message in self._messages():
            seen += 1
            if isinstance(message, Insert | Update | Delete | Truncate):
                number += 1
                if not is_done and number > done and (lsn > position.lsn or not is_first):
                    found_new = True
                    yield Change(lsn, number, message)
            elif isinstance(message, Begin):
                is_done, number = message.commit_lsn < position.commit_end, 0
                done = position.changes if is_first else 0
                self.begin_lsn = lsn
                if not is_done:
                    yield message
            elif isinstance(message, Commit):
                if not is_done:
                    is_first = False
                    yield message
            elif isinstance(message, Relation):
                yield message
        # A log full of skipped changes must not be read from the start forever, so fetch more next time.
        self.reached_end = seen < self._wanted
        self._wanted = self._least if found_new or self.reached_end else self._wanted * 2

    def _messages(self) -> Iterator[tuple[int, Message]]:
        if self._connection is None:
            self._connection = self._server.connect(autocommit=False)
        connection = self._connection
        query = sql.SQL(
            "DECLARE changes BINARY NO SCROLL CURSOR FOR SELECT lsn::text, data FROM "
            "pg_logical_slot_peek_binary_changes({}, NULL, {}, 'proto_version', '1', 'publication_names', {})"
        ).format(self._slot.name, self._wanted, sql.Identifier(self._publication).as_string(None))
        try:
            connection.execute(query)
            while True:
                result = connection.execute("FETCH 4096 FROM changes", binary=True).pgresult
                assert result is not None
                if result.ntuples == 0:
                    break
                get = result.get_value
                for row in range(result.ntuples):
                    lsn, data = get(row, 0), get(row, 1)
                    assert lsn is not None
                    assert data is not None
                    yield parse_lsn(lsn.decode()), decode(bytes(data))
        except psycopg.errors.ObjectInUse:
            raise self._slot.in_use() from None
        finally:
            with contextlib.suppress(psycopg.Error):
                connection.rollback()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
