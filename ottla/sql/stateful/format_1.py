"""Upgrade of state format 1, which held pickled values and, in some keys, `repr` texts.

The unpickler maps the format's original class names to current classes. It resolves no other names, so it runs no code
from a checkpoint, and modules may move.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import io
import pickle
import struct
import zoneinfo
from collections.abc import Iterator
from typing import Any, Protocol

from ottla.spark.state.value_codec import BadValue, encode
from ottla.sql.stateful.aggregation import AggregateOperator, TableRowsOperator
from ottla.sql.stateful.entries import encoded
from ottla.sql.stateful.grouped import key_of
from ottla.sql.stateful.joins.foreign_key import ForeignKeyJoin
from ottla.sql.stateful.records import Operator

Entry = tuple[bytes, bytes | None]


class OldState(Protocol):
    def get(self, key: bytes) -> bytes | None: ...

    def everything(self) -> Iterator[Entry]: ...


def upgraded(operator: Operator, old: OldState) -> Iterator[Entry]:
    """Yield the entries of an operator's state in the current format."""
    if isinstance(operator, AggregateOperator):
        return _groups(old)
    if isinstance(operator, TableRowsOperator):
        return _table_rows(old)
    if isinstance(operator, ForeignKeyJoin):
        return _foreign_keys(operator, old)
    return ((key, _value(value)) for key, value in old.everything())


def _groups(old: OldState) -> Iterator[Entry]:
    for key, value in old.everything():
        assert value is not None
        if key[:1] == b"e":  # end of a window or session, and the key of its group
            named = old.get(key[9:])
            if named is not None:
                yield key[:9] + _group(key[9:], named)[0], value
        elif key[:1] in (b"g", b"s"):
            yield _group(key, value)
        else:
            yield key, _value(value)


def _group(key: bytes, value: bytes) -> tuple[bytes, bytes]:
    held = _unpickled(value)
    if key[:1] == b"s":
        group, sessions = held
        return b"s" + key_of(group), encode((group, tuple(sessions)))
    if not isinstance(held, _Held):
        raise BadValue("the entry of a group holds something else")
    group, start = held.group, held.start
    window = b"" if start is None else encoded(start)
    return b"g" + key_of(group) + window, encode((group, held.states, held.time, start, held.end))


def _table_rows(old: OldState) -> Iterator[Entry]:
    """Upgrade table rows. Keys are texts of tuples that contain the row key as bytes."""
    import ast

    for key, value in old.everything():
        assert value is not None
        try:
            row_key = ast.literal_eval(key[1:-1].decode())
        except (ValueError, SyntaxError) as error:
            raise BadValue(f"the key of a row is damaged ({error})") from None
        yield b"r" + key_of(row_key), _value(value)


def _foreign_keys(operator: ForeignKeyJoin, old: OldState) -> Iterator[Entry]:
    for key, value in old.everything():
        assert value is not None
        if key[:1] != b"l":
            yield key, _value(value)
            continue
        time, values = _unpickled(value)
        foreign = key[5 : 5 + int.from_bytes(key[1:5], "big")]
        yield b"l" + operator.place(foreign, values), encode((time, values))


def _value(value: bytes | None) -> bytes:
    """Convert a pickled value. Marks without a value are not pickled."""
    assert value is not None
    return encode(_unpickled(value)) if value[:1] == b"\x80" else value


class _Held:
    """Fields of a group's state, set by pickle."""

    group: Any
    states: Any
    time: int
    start: int | None
    end: int | None


class _Zone:
    """Placeholder for the time zone class, from which pickle takes one function."""


def _attribute(owner: object, name: str) -> Any:
    if owner is not _Zone or name != "_unpickle":
        raise BadValue("a value is damaged (it asks for an attribute)")
    return _zone


def _zone(name: str, _: object = None) -> datetime.tzinfo:
    return datetime.UTC if name == "UTC" else zoneinfo.ZoneInfo(name)


class _NumpyType:
    """Type of a numpy number, such as f8 with a byte order. Python aggregates could store such numbers."""

    def __init__(self, name: str, *_: object) -> None:
        self.name = name
        self.order = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = state[1] if state[1] in "<>" else "="


def _numpy_number(kind: _NumpyType, data: bytes) -> Any:
    code = {"f8": "d", "f4": "f", "i8": "q", "i4": "i", "i2": "h", "u8": "Q", "u4": "I", "b1": "?"}[kind.name]
    return struct.unpack(kind.order + code, data)[0]


_NAMES: dict[tuple[str, str], Any] = {
    ("ottla.spark.sql.stateful.grouped", "Held"): _Held,
    # Keys of COLLECT_SET and ATTR contained the type. Current keys contain its name.
    ("builtins", "bool"): "bool",
    ("builtins", "bytearray"): bytearray,
    ("collections", "Counter"): collections.Counter,
    ("collections", "deque"): collections.deque,
    ("decimal", "Decimal"): decimal.Decimal,
    ("datetime", "date"): datetime.date,
    ("datetime", "time"): datetime.time,
    ("datetime", "datetime"): datetime.datetime,
    ("datetime", "timedelta"): datetime.timedelta,
    ("datetime", "timezone"): datetime.timezone,
    ("zoneinfo", "ZoneInfo"): _Zone,
    ("builtins", "getattr"): _attribute,
    ("pytz", "_UTC"): lambda: datetime.UTC,
    ("numpy", "dtype"): _NumpyType,
    ("numpy._core.multiarray", "scalar"): _numpy_number,
    ("numpy.core.multiarray", "scalar"): _numpy_number,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _NAMES[module, name]
        except KeyError:
            raise BadValue(
                f"it holds an object of class {module}.{name}, which the current format cannot store. "
                "Start the query with a new checkpoint"
            ) from None

    def persistent_load(self, pid: Any) -> Any:
        raise BadValue("a value is damaged (it refers to another file)")


def _unpickled(data: bytes) -> Any:
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except BadValue:
        raise
    except Exception as error:
        raise BadValue(f"a value is damaged ({error})") from None
