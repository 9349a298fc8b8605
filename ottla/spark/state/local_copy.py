"""Local copy of a partition's state: an LMDB environment in which the last batch can be undone.

The copy is never synced. A killed process loses no committed changes, because they are in the page cache. After a
reboot the copy is not used, because its name contains the boot id.

LMDB keys have at most 511 bytes. A longer key is stored as its prefix and a hash, with the whole key next to the value.
A checksum before each value covers the key and the value, because LMDB has none.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any
from zlib import crc32

from ottla.spark.state.change_files import Entry

#: Address space for the largest transaction. The file on disk only grows as needed.
HEADROOM = 4 << 30
_CHANGES_PER_TRANSACTION = 20_000
_LONGEST_KEY = 440
_VERSION, _UNFINISHED, _UNDOABLE = b"version", b"unfinished", b"undoable"
_CHECKSUM = Struct("<I")
_ABSENT, _HELD = b"\0", b"\1"
_NONE = -2  # no complete version


class DamagedCopy(Exception):
    """An entry has changed on disk. The copy must be rebuilt."""


class LocalCopy:
    """Invariant: `data` is the state after `version`; if `undoable`, `undo` restores the state before it. During a
    batch, `data` is in between, `undo` restores `version`, and `unfinished` is set.

    Owner: one process, which holds the lock of the directory.
    """

    def __init__(self, directory: Path, headroom: int = HEADROOM) -> None:
        self._directory = directory
        self._headroom = headroom
        self._environment: Any = None
        self._transaction: Any = None
        self._changes = 0
        self._open()

    # Lifecycle

    def _open(self) -> None:
        import lmdb

        data, size = self._directory / "data.mdb", self._directory / "size"
        with contextlib.suppress(OSError, ValueError):
            # LMDB maps the file: reading beyond the end of a truncated file would kill the process.
            if data.stat().st_size < int(size.read_text()):
                self._delete()
        try:
            self._begin_environment()
        except lmdb.Error:
            self._delete()
            self._begin_environment()

    def _begin_environment(self) -> None:
        import lmdb

        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = self._directory / "data.mdb"
        size = data.stat().st_size if data.exists() else 0
        self._environment = lmdb.open(
            str(self._directory),
            map_size=size + self._headroom,
            max_dbs=3,
            mode=0o600,
            sync=False,
            metasync=False,
            writemap=False,
        )
        self._data = self._environment.open_db(b"data")
        self._undo = self._environment.open_db(b"undo")
        self._meta = self._environment.open_db(b"meta")
        self._begin()
        self.version = int(self._transaction.get(_VERSION, str(_NONE).encode(), db=self._meta))
        if self._transaction.get(_UNFINISHED, db=self._meta) is not None:
            self._apply_undo()
            self._continue()

    def _begin(self) -> None:
        used = (self._environment.info()["last_pgno"] + 1) * self._environment.stat()["psize"]
        if self._environment.info()["map_size"] < used + self._headroom:
            self._environment.set_mapsize(used + 2 * self._headroom)
        self._transaction = self._environment.begin(write=True)
        self._changes = 0

    def _continue(self) -> None:
        """Commit and begin again, so that no transaction grows without bound."""
        self._transaction.commit()
        self._begin()

    def close(self) -> None:
        if self._environment is None:
            return
        self._transaction.abort()
        with contextlib.suppress(OSError):
            (self._directory / "size").write_text(str((self._directory / "data.mdb").stat().st_size))
        self._environment.close()
        self._environment = None

    def _delete(self) -> None:
        for each in self._directory.iterdir():
            if each.is_file() and each.name != "lock":
                each.unlink()

    # Versions

    def empty(self) -> None:
        """Drop every version. After filling the copy, call `made`."""
        self._transaction.abort()
        self._environment.close()
        self._delete()
        self._begin_environment()

    def fill(self, entries: Iterator[Entry]) -> None:
        for key, value in entries:
            stored = _stored(key)
            if value is None:
                self._transaction.delete(stored, db=self._data)
            else:
                self._transaction.put(stored, _packed(key, value), db=self._data)
            self._changed()

    def made(self, version: int) -> None:
        self._transaction.put(_VERSION, str(version).encode(), db=self._meta)
        self._continue()
        self.version = version

    def back(self) -> None:
        """Return to the previous version if possible, to repeat its batch."""
        if self._transaction.get(_UNDOABLE, db=self._meta) is not None:
            self._apply_undo()
            self.made(self.version - 1)

    def _apply_undo(self) -> None:
        with self._transaction.cursor(self._undo) as cursor:
            for stored, old in cursor:
                if old == _ABSENT:
                    self._transaction.delete(stored, db=self._data)
                else:
                    self._transaction.put(stored, old[1:], db=self._data)
        self._transaction.drop(self._undo, delete=False)
        self._transaction.delete(_UNFINISHED, db=self._meta)
        self._transaction.delete(_UNDOABLE, db=self._meta)

    def begin_batch(self) -> None:
        self._transaction.drop(self._undo, delete=False)
        self._transaction.put(_UNFINISHED, b"", db=self._meta)
        self._transaction.delete(_UNDOABLE, db=self._meta)

    def finish_batch(self) -> None:
        self._transaction.delete(_UNFINISHED, db=self._meta)
        self._transaction.put(_UNDOABLE, b"", db=self._meta)
        self.made(self.version + 1)

    def changes(self) -> Iterator[Entry]:
        with self._transaction.cursor(self._undo) as cursor:
            for stored, old in cursor:
                packed = self._transaction.get(stored, db=self._data)
                if packed is not None:
                    yield _unpacked(stored, packed)
                elif old != _ABSENT:
                    yield _unpacked(stored, old[1:])[0], None

    def everything(self) -> Iterator[Entry]:
        with self._transaction.cursor(self._data) as cursor:
            for stored, packed in cursor:
                yield _unpacked(stored, packed)

    # Keys

    def get(self, key: bytes) -> bytes | None:
        stored = _stored(key)
        packed = self._transaction.get(stored, db=self._data)
        return None if packed is None else _unpacked(stored, packed)[1]

    def put(self, key: bytes, value: bytes) -> None:
        stored = _stored(key)
        self._remember(stored)
        self._transaction.put(stored, _packed(key, value), db=self._data)
        self._changed()

    def delete(self, key: bytes) -> None:
        stored = _stored(key)
        self._remember(stored)
        self._transaction.delete(stored, db=self._data)
        self._changed()

    def scan(
        self, prefix: bytes, start: bytes, stop: bytes | None, limit: int | None
    ) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        first = max(prefix, start)
        with self._transaction.cursor(self._data) as cursor:
            if not cursor.set_range(first[:_LONGEST_KEY]):
                return found
            short = prefix[:_LONGEST_KEY]
            last_short = None
            for stored, packed in cursor:
                if not stored.startswith(short):
                    break
                key, value = _unpacked(stored, packed)
                if stop is not None and stored[:_LONGEST_KEY] > stop[:_LONGEST_KEY]:
                    break
                # Long keys with the same prefix are unordered, so all of them must be read.
                if limit is not None and len(found) >= limit and stored[:_LONGEST_KEY] != last_short:
                    break
                if key.startswith(prefix) and key >= first and (stop is None or key < stop):
                    found.append((key, value))
                    last_short = stored[:_LONGEST_KEY] if len(key) > _LONGEST_KEY else None
        if any(len(key) > _LONGEST_KEY for key, _ in found):
            found.sort()
        return found if limit is None else found[:limit]

    def _remember(self, stored: bytes) -> None:
        old = self._transaction.get(stored, db=self._data)
        kept = _ABSENT if old is None else _HELD + old
        # Only the first change of a key in a batch counts.
        self._transaction.put(stored, kept, db=self._undo, overwrite=False)

    def _changed(self) -> None:
        self._changes += 1
        if self._changes >= _CHANGES_PER_TRANSACTION:
            self._continue()


def _stored(key: bytes) -> bytes:
    if len(key) <= _LONGEST_KEY:
        return key
    return key[:_LONGEST_KEY] + hashlib.sha256(key).digest()


def _packed(key: bytes, value: bytes) -> bytes:
    if len(key) <= _LONGEST_KEY:
        return _CHECKSUM.pack(crc32(value, crc32(key))) + value
    data = len(key).to_bytes(4, "big") + key + value
    return _CHECKSUM.pack(crc32(data, crc32(_stored(key)))) + data


def _unpacked(stored: bytes, packed: bytes) -> tuple[bytes, bytes]:
    data = packed[_CHECKSUM.size :]
    if packed[: _CHECKSUM.size] != _CHECKSUM.pack(crc32(data, crc32(stored))):
        raise DamagedCopy
    if len(stored) <= _LONGEST_KEY:
        return stored, data
    end = 4 + int.from_bytes(data[:4], "big")
    return data[4:end], data[end:]
