"""The messages of pgoutput, protocol version 1, which PostgreSQL writes for changes of published tables.

Values are bytes in text form, and None means NULL. `UNCHANGED` marks an untouched TOAST value, which PostgreSQL does
not send.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from typing import NamedTuple

from ottla.connect.errors import ConnectError


class Unchanged(enum.Enum):
    TOAST = "unchanged"


UNCHANGED = Unchanged.TOAST
Value = bytes | None | Unchanged


class Begin(NamedTuple):
    #: Start of the commit record.
    commit_lsn: int
    #: Microseconds since 1970.
    time: int
    xid: int


class Commit(NamedTuple):
    commit_lsn: int
    #: End of the commit record.
    end_lsn: int
    time: int


class RelationColumn(NamedTuple):
    name: str
    type_oid: int
    type_modifier: int
    is_key: bool


class Relation(NamedTuple):
    oid: int
    schema: str
    name: str
    #: d: primary key, n: nothing, f: the whole row, i: an index.
    replica_identity: str
    columns: tuple[RelationColumn, ...]


class Insert(NamedTuple):
    relation: int
    new: list[Value]


class Update(NamedTuple):
    relation: int
    #: Old key values if the key changed. Other columns are None.
    old_key: list[Value] | None
    #: The whole row, if the table's replica identity is FULL.
    old: list[Value] | None
    new: list[Value]


class Delete(NamedTuple):
    relation: int
    old_key: list[Value] | None
    old: list[Value] | None


class Truncate(NamedTuple):
    relations: tuple[int, ...]


class Other(NamedTuple):
    """Type and origin messages, which are ignored."""

    kind: str


Message = Begin | Commit | Relation | Insert | Update | Delete | Truncate | Other

_BEGIN = struct.Struct(">QqI")
_COMMIT = struct.Struct(">BQQq")
_COLUMN = struct.Struct(">Ii")
_INT16 = struct.Struct(">H")
_INT32 = struct.Struct(">I")
#: PostgreSQL's epoch, 2000-01-01, in microseconds since 1970.
POSTGRES_EPOCH = 946_684_800_000_000

_NULL, _UNCHANGED, _TEXT = b"n"[0], b"u"[0], b"t"[0]
_OLD_KEY, _OLD_ROW = b"K"[0], b"O"[0]


def decode(data: bytes) -> Message:
    try:
        return _DECODERS[data[0]](data)
    except KeyError:
        return Other(chr(data[0]))
    except (IndexError, struct.error, ValueError):
        raise ConnectError(
            f"PostgreSQL sent a message of pgoutput that cannot be read: {data[:40].hex()}. Check that plugin.name "
            "is pgoutput and the slot was made for it."
        ) from None


def _begin(data: bytes) -> Begin:
    lsn, moment, xid = _BEGIN.unpack_from(data, 1)
    return Begin(lsn, moment + POSTGRES_EPOCH, xid)


def _commit(data: bytes) -> Commit:
    _, lsn, end, moment = _COMMIT.unpack_from(data, 1)
    return Commit(lsn, end, moment + POSTGRES_EPOCH)


def _string(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _relation(data: bytes) -> Relation:
    (oid,) = _INT32.unpack_from(data, 1)
    schema, at = _string(data, 5)
    name, at = _string(data, at)
    identity = chr(data[at])
    (count,) = _INT16.unpack_from(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        is_key = data[at] == 1
        column, at = _string(data, at + 1)
        type_oid, modifier = _COLUMN.unpack_from(data, at)
        at += 8
        columns.append(RelationColumn(column, type_oid, modifier, is_key))
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))


def _tuple(data: bytes, at: int) -> tuple[list[Value], int]:
    (count,) = _INT16.unpack_from(data, at)
    at += 2
    values: list[Value] = []
    for _ in range(count):
        kind = data[at]
        if kind == _TEXT:
            (length,) = _INT32.unpack_from(data, at + 1)
            at += 5
            values.append(data[at : at + length])
            at += length
        elif kind == _NULL:
            values.append(None)
            at += 1
        elif kind == _UNCHANGED:
            values.append(UNCHANGED)
            at += 1
        else:
            raise ValueError("a kind of value that is not known")
    return values, at


def _insert(data: bytes) -> Insert:
    (relation,) = _INT32.unpack_from(data, 1)
    return Insert(relation, _tuple(data, 6)[0])


def _update(data: bytes) -> Update:
    (relation,) = _INT32.unpack_from(data, 1)
    old_key = old = None
    at = 5
    if data[at] == _OLD_KEY:
        old_key, at = _tuple(data, at + 1)
    elif data[at] == _OLD_ROW:
        old, at = _tuple(data, at + 1)
    return Update(relation, old_key, old, _tuple(data, at + 1)[0])


def _delete(data: bytes) -> Delete:
    (relation,) = _INT32.unpack_from(data, 1)
    values, _ = _tuple(data, 6)
    return Delete(relation, values, None) if data[5] == _OLD_KEY else Delete(relation, None, values)


def _truncate(data: bytes) -> Truncate:
    (count,) = _INT32.unpack_from(data, 1)
    return Truncate(struct.unpack_from(f">{count}I", data, 6))


_DECODERS: dict[int, Callable[[bytes], Message]] = {
    b"B"[0]: _begin,
    b"C"[0]: _commit,
    b"R"[0]: _relation,
    b"I"[0]: _insert,
    b"U"[0]: _update,
    b"D"[0]: _delete,
    b"T"[0]: _truncate,
}


def parse_lsn(text: str) -> int:
    """Parse a log position. PostgreSQL writes it as two hexadecimal halves: 0/16B3748."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def format_lsn(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
