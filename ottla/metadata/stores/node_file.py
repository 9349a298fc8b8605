"""The SQLite file of the embedded store. Owner: the store's only worker thread.

SQLite notices damage only to its own structures. Each row therefore has a checksum, and the table `store` holds the
number of nodes and their combined checksums, which reveals missing rows. Damage to the write-ahead log, or its removal,
silently loses the last commits. The file `<store>-commits` therefore counts them: 16 bytes, the number of commits and
its complement, written after each commit.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import stat
from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from ottla.metadata.stores.store import StoreError

logger = logging.getLogger(__name__)

_APPLICATION_ID = 0x4F54_4C41  # "OTLA" in the file's header
_SCHEMA_VERSION = 2
_OWNER_ONLY = 0o600
_BESIDE = ("-wal", "-shm", "-journal")
_COMMITS_SUFFIX = "-commits"
_COMMITS = Struct(">QQ")
_FIELD_TYPES = (str, bytes, int, int, int, int)


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


_COUNTS = ("nodes", "digest", "commits", "crc")


def _counts_crc(*counts: int) -> int:
    return crc32(b"%d %d %d %d" % counts)


class NodeFile:
    """Nodes on disk. A completed commit survives kill -9; it also survives a power failure unless `sync` is off."""

    def __init__(self, path: Path, *, sync: bool) -> None:
        self.path = path
        self.sync = sync
        self._connection: sqlite3.Connection | None = None
        self._checksums: dict[str, int] = {}
        self._digest = 0  # XOR of all checksums
        self._commits = 0
        self._commits_fd = -1
        self._epoch = 0

    def open(self) -> tuple[list[Row], int]:
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
        # Only the worker thread uses it, but the cleanup after a failed open may run in another thread.
        connection = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
        self._connection = connection
        run = connection.execute
        # Exclusive: keeps other processes out, and the write-ahead log needs no shared memory.
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA journal_mode = WAL")
        run(f"PRAGMA synchronous = {'FULL' if self.sync else 'OFF'}")
        run("BEGIN IMMEDIATE")
        application_id = run("PRAGMA application_id").fetchone()[0]
        schema_version = run("PRAGMA user_version").fetchone()[0]
        empty = run("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        committed = self._read_commits()
        if empty and (application_id == _APPLICATION_ID or committed):
            raise StoreError(
                self._damaged(
                    f"it or {self.path.name}-wal is empty or missing, and had topics, users and settings in it"
                )
            )
        if empty:
            run(f"PRAGMA application_id = {_APPLICATION_ID}")
            run(f"PRAGMA user_version = {_SCHEMA_VERSION}")
            run(
                "CREATE TABLE node (path TEXT PRIMARY KEY, data BLOB NOT NULL, version INTEGER NOT NULL,"
                " czxid INTEGER NOT NULL, next_sequence INTEGER NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID"
            )
            run("CREATE TABLE store (epoch INTEGER NOT NULL)")
            run("INSERT INTO store VALUES (0)")
            self._add_counts()
        elif application_id != _APPLICATION_ID:
            raise StoreError(
                f"{self.path} is not a metadata store of Ottla: name another file, or move it away."
            )
        elif schema_version > _SCHEMA_VERSION:
            raise StoreError(
                f"{self.path} was written by a newer Ottla: start that version, or use another directory."
            )
        rows = self._read()
        if schema_version < _SCHEMA_VERSION and not empty:
            self._add_counts()
            run(f"PRAGMA user_version = {_SCHEMA_VERSION}")
            run("UPDATE store SET nodes = ?, digest = ?", (len(rows), self._digest))
        self._epoch = self._check_counts(len(rows), committed) + 1
        self._commits += 1
        self._write_counts()
        run("COMMIT")
        self._note_commit()
        return rows, self._epoch

    def _add_counts(self) -> None:
        assert self._connection is not None
        for column in _COUNTS:
            self._connection.execute(f"ALTER TABLE store ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0")

    def _check_counts(self, nodes: int, committed: int) -> int:
        """Compare the rows with the counts in `store`. Return the number of earlier opens."""
        assert self._connection is not None
        found = self._connection.execute("SELECT epoch, nodes, digest, commits, crc FROM store").fetchall()
        if len(found) != 1 or not all(isinstance(field, int) for field in found[0]):
            raise StoreError(self._damaged("its table `store` cannot be read"))
        epoch, expected, digest, self._commits, crc = found[0]
        if self._commits and crc != _counts_crc(epoch, expected, digest, self._commits):
            raise StoreError(self._damaged("the checksum of its table `store` does not match"))
        if (nodes, self._digest) != (expected, digest):
            raise StoreError(self._damaged(f"it has {nodes} nodes, and had {expected}"))
        if self._commits < committed:
            raise StoreError(
                self._damaged(
                    f"{committed - self._commits} of its last changes are missing, which were in {self.path}-wal"
                )
            )
        return int(epoch)

    def _write_counts(self) -> None:
        assert self._connection is not None
        counts = (len(self._checksums), self._digest, self._commits)
        self._connection.execute(
            "UPDATE store SET epoch = ?, nodes = ?, digest = ?, commits = ?, crc = ?",
            (self._epoch, *counts, _counts_crc(self._epoch, *counts)),
        )

    def _read_commits(self) -> int:
        """Return the minimum number of commits that the file must have; 0 if unknown."""
        path = f"{self.path}{_COMMITS_SUFFIX}"
        try:
            self._commits_fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWNER_ONLY)
            data = os.pread(self._commits_fd, _COMMITS.size, 0)
        except OSError as error:
            raise StoreError(f"{path} cannot be opened for writing: {error.strerror}.") from error
        if len(data) < _COMMITS.size:
            return 0
        commits, complement = _COMMITS.unpack(data)
        return commits if commits == complement ^ (2**64 - 1) else 0

    def _note_commit(self) -> None:
        with contextlib.suppress(OSError):  # a smaller number is still a valid minimum
            os.pwrite(self._commits_fd, _COMMITS.pack(self._commits, self._commits ^ (2**64 - 1)), 0)

    def _keep_from_others(self) -> None:
        """Restrict the file to its owner, because it contains credentials. SQLite copies its mode to the files beside
        it.

        SQLite reports the error for a file that cannot be opened or is not a regular file.
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
            # SQLite types each value separately, and a flipped bit may change the type.
            if any(type(value) is not kind for value, kind in zip((*fields, crc), _FIELD_TYPES, strict=True)):
                raise StoreError(self._damaged(f"the node {fields[0]!r} cannot be read"))
            row = Row(*fields)
            if row.checksum() != crc:
                raise StoreError(self._damaged(f"the checksum of the node {row.path} does not match"))
            self._note_row(row.path, crc)
            rows.append(row)
        return rows

    def _note_row(self, path: str, crc: int | None) -> None:
        """Update the digest for a row that is stored (with its checksum) or deleted (without)."""
        before = self._checksums.pop(path, 0)
        self._digest ^= before
        if crc is not None:
            self._checksums[path] = crc
            self._digest ^= crc

    def _damaged(self, reason: str) -> str:
        return (
            f"{self.path} is damaged: {reason}. Restore it from a backup, and remove {self.path.name}-commits if the "
            f"backup has none. Or move {self.path.name} and the files {self.path.name}-* away: the broker then takes "
            "over the topics that it finds, without their settings, users and ACLs."
        )

    def commit(self, rows: Sequence[Row], deleted: Sequence[str]) -> None:
        connection = self._connection
        if connection is None:
            raise StoreError(f"The metadata store {self.path} is closed.")
        before = [(path, self._checksums.get(path)) for path in (*deleted, *(row.path for row in rows))]
        checked = [(*row, row.checksum()) for row in rows]
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("DELETE FROM node WHERE path = ?", [(path,) for path in deleted])
            connection.executemany("INSERT OR REPLACE INTO node VALUES (?, ?, ?, ?, ?, ?)", checked)
            for path in deleted:
                self._note_row(path, None)
            for row in checked:
                self._note_row(row[0], row[-1])
            self._commits += 1
            self._write_counts()
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            for path, crc in before:
                self._note_row(path, crc)
            raise StoreError(self._sentence(error)) from error
        self._note_commit()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._commits_fd >= 0:
            os.close(self._commits_fd)
            self._commits_fd = -1

    def _sentence(self, error: sqlite3.Error) -> str:
        match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return f"{self.path} is in use by another broker: stop that one, or use another directory."
            case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
                return self._damaged(f"SQLite cannot read it ({error})")
            case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
                return (
                    f"{self.path} cannot be opened for writing: check that it is a file and its permissions."
                )
            case sqlite3.SQLITE_FULL:
                return f"{self.path} cannot grow, the disk is full: make room on it."
        return f"{self.path} cannot be used: {error}."
