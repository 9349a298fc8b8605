"""The SQLite file under the embedded store. Owner: the store's one worker thread."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from ottla.metadata.stores.store import StoreError

logger = logging.getLogger(__name__)

_APPLICATION_ID = 0x4F54_4C41  # "OTLA" in the file's header
_SCHEMA_VERSION = 1
_OWNER_ONLY = 0o600
_BESIDE = ("-wal", "-shm", "-journal")


class Row(NamedTuple):
    path: str
    data: bytes
    version: int
    czxid: int
    next_sequence: int

    def checksum(self) -> int:
        return crc32(
            b"%d %d %d " % (self.version, self.czxid, self.next_sequence) + self.data,
            crc32(self.path.encode()),
        )


class NodeFile:
    """Nodes on disk. A commit that returned survives kill -9, and a power cut unless `sync` is off."""

    def __init__(self, path: Path, *, sync: bool) -> None:
        self.path = path
        self.sync = sync
        self._connection: sqlite3.Connection | None = None

    def open(self) -> tuple[list[Row], int]:
        """Every node, and how often the file has been opened, this time included."""
        try:
            return self._open()
        except sqlite3.Error as error:
            self.close()
            raise StoreError(self._sentence(error)) from error
        except StoreError:
            self.close()
            raise

    def _open(self) -> tuple[list[Row], int]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"Cannot create the directory {self.path.parent}: {error.strerror}.") from error
        self._keep_from_others()
        # The worker thread is the only user, but a failed open is cleaned up from wherever it failed.
        connection = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
        self._connection = connection
        run = connection.execute
        # Exclusive: a second process is turned away, and the write-ahead log needs no shared memory.
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA journal_mode = WAL")
        run(f"PRAGMA synchronous = {'FULL' if self.sync else 'OFF'}")
        run("BEGIN IMMEDIATE")
        application_id = run("PRAGMA application_id").fetchone()[0]
        schema_version = run("PRAGMA user_version").fetchone()[0]
        empty = run("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if empty:
            run(f"PRAGMA application_id = {_APPLICATION_ID}")
            run(f"PRAGMA user_version = {_SCHEMA_VERSION}")
            run(
                "CREATE TABLE node (path TEXT PRIMARY KEY, data BLOB NOT NULL, version INTEGER NOT NULL,"
                " czxid INTEGER NOT NULL, next_sequence INTEGER NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID"
            )
            run("CREATE TABLE store (epoch INTEGER NOT NULL)")
            run("INSERT INTO store VALUES (0)")
        elif application_id != _APPLICATION_ID:
            raise StoreError(
                f"{self.path} is not a metadata store of Ottla: name another file, or move it away."
            )
        elif schema_version > _SCHEMA_VERSION:
            raise StoreError(
                f"{self.path} was written by a newer Ottla: start that version, or use another directory."
            )
        run("UPDATE store SET epoch = epoch + 1")
        epoch: int = run("SELECT epoch FROM store").fetchone()[0]
        rows = self._read()
        run("COMMIT")
        return rows, epoch

    def _keep_from_others(self) -> None:
        """Credentials are in it: its owner alone may read it. SQLite gives the files beside it the rights of the first.

        A file that cannot be opened or is no file at all is left for SQLite to report.
        """
        with contextlib.suppress(OSError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWNER_ONLY))
        for path in (self.path, *(self.path.with_name(self.path.name + each) for each in _BESIDE)):
            try:
                mode = path.stat().st_mode
                if stat.S_ISREG(mode) and mode & 0o077:
                    path.chmod(_OWNER_ONLY)
            except FileNotFoundError:
                continue
            except OSError as error:
                logger.warning(
                    "%s has credentials in it and can be read by others, which cannot be changed: %s",
                    path,
                    error.strerror,
                )

    def _read(self) -> list[Row]:
        assert self._connection is not None
        rows = []
        for *fields, crc in self._connection.execute(
            "SELECT path, data, version, czxid, next_sequence, crc FROM node"
        ):
            row = Row(*fields)
            if row.checksum() != crc:
                raise StoreError(f"{self.path} is damaged at the node {row.path}: restore it from a backup.")
            rows.append(row)
        return rows

    def commit(self, rows: Sequence[Row], deleted: Sequence[str]) -> None:
        connection = self._connection
        if connection is None:
            raise StoreError(f"The metadata store {self.path} is closed.")
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("DELETE FROM node WHERE path = ?", [(path,) for path in deleted])
            connection.executemany(
                "INSERT OR REPLACE INTO node VALUES (?, ?, ?, ?, ?, ?)",
                [(*row, row.checksum()) for row in rows],
            )
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise StoreError(self._sentence(error)) from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _sentence(self, error: sqlite3.Error) -> str:
        match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return f"{self.path} is in use by another broker: stop that one, or use another directory."
            case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
                return f"{self.path} is damaged or no metadata store: restore a backup, or move it away."
            case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
                return (
                    f"{self.path} cannot be opened for writing: check that it is a file and its permissions."
                )
            case sqlite3.SQLITE_FULL:
                return f"{self.path} cannot grow, the disk is full: make room on it."
        return f"{self.path} cannot be used: {error}."
