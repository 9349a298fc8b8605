"""Encoding of one value in the state: a version byte and MessagePack.

docs/reference/state-format.md describes the format.

Decoding never runs code and returns values of exactly the types that were encoded.

Most values contain only tuples, dictionaries, numbers, texts and nulls. The encoder marks these as plain, and msgspec
decodes them without any step in Python. Other values use extension types.
"""

from __future__ import annotations

import datetime
import decimal
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import msgspec

_VERSION = 1
_PLAIN, _EXTENDED = _VERSION << 4, _VERSION << 4 | 1
_PLAIN_HEAD, _EXTENDED_HEAD = bytes([_PLAIN]), bytes([_EXTENDED])
#: Deeper values are encoded with extension types.
_PLAIN_DEPTH = 6
_KEY_DEPTH = 3

(
    _LIST,
    _SET,
    _FROZENSET,
    _MAP,
    _INTEGER,
    _DECIMAL,
    _DATE,
    _TIME,
    _DATETIME,
    _TIMEDELTA,
    _TEXT,
    _COUNTER,
    _DEQUE,
) = range(1, 14)

_NoneType = type(None)
_SCALARS = frozenset((_NoneType, bool, int, float, str))
_SIMPLE = _SCALARS | {bytes}
_FIXED = frozenset((_NoneType, bool, float, bytes))


class BadValue(Exception):
    """The value cannot be encoded or decoded. The message is the end of a sentence."""


def encode(value: Any) -> bytes:
    """Return the bytes of a value, including the version byte. Raises BadValue for objects that are not data."""
    if _is_plain(value, _PLAIN_DEPTH):
        try:
            return _PLAIN_HEAD + _encoder.encode(value)
        except (OverflowError, UnicodeEncodeError):
            pass  # an integer beyond 64 bits, or a lone surrogate
    return _EXTENDED_HEAD + _extended(value)


def encode_key(value: Any) -> bytes:
    """Return bytes that are the same for equal values, and never a prefix of another value's bytes."""
    if type(value) is tuple and _SIMPLE.issuperset(map(type, value)):
        try:
            return _encoder.encode(value)
        except (OverflowError, UnicodeEncodeError):
            pass
    return _extended(value)


def decode(data: bytes) -> Any:
    """Return the value that `encode` turned into these bytes. Raises BadValue."""
    head = data[0] if data else 0
    try:
        if head == _PLAIN:
            return _plain_decoder.decode(memoryview(data)[1:])
        if head == _EXTENDED:
            return _settled(_extended_decoder.decode(memoryview(data)[1:]))
    except (
        msgspec.MsgspecError,
        ArithmeticError,
        ValueError,
        TypeError,
        LookupError,
        RecursionError,
        MemoryError,
    ) as error:
        raise BadValue(f"a value is damaged ({error})") from None
    if head >> 4 > _VERSION and head >> 4 < 8:
        raise BadValue(
            f"a value has format {head >> 4} of a newer version of Ottla; this one reads {_VERSION}"
        )
    raise BadValue("a value is damaged (it has no known version)")


def _is_plain(value: Any, depth: int) -> bool:
    """Return True if the value consists of scalars, tuples and dictionaries, nested no deeper than `depth`."""
    kind = type(value)
    if kind is tuple:
        if depth <= 0:
            return False
        if _SCALARS.issuperset(map(type, value)):
            return True
        for each in value:  # noqa: SIM110 - a generator takes twice as long
            if type(each) not in _SCALARS and not _is_plain(each, depth - 1):
                return False
        return True
    if kind is dict:
        names_are_plain = _SCALARS.issuperset(map(type, value)) or _is_plain(
            tuple(value), min(depth, _KEY_DEPTH)
        )
        return names_are_plain and _is_plain(tuple(value.values()), depth)
    return kind in _SCALARS


# Values with extension types


def _extended(value: Any) -> bytes:
    try:
        return _encoder.encode(_tagged(value))
    except RecursionError:
        raise BadValue("a value is nested too deeply") from None


def _tagged(value: Any) -> Any:
    tag = _TAGS.get(type(value))
    if tag is not None:
        return tag(value)
    # Subclasses of numbers and texts, such as numpy.float64, are encoded as the base type.
    for kind, plain in _BASES:
        if isinstance(value, kind):
            return _tagged(plain(value))
    if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return _tagged(value.item())
    raise BadValue(
        f"a value of type {type(value).__module__}.{type(value).__qualname__} cannot be stored. Use numbers, texts, "
        "bytes, dates, times, tuples, lists, sets and dictionaries"
    )


_BASES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (int, int),
    (float, float),
    (str, str),
    (bytes, bytes),
)


def _same(value: Any) -> Any:
    return value


def _tagged_integer(value: int) -> Any:
    if -(1 << 63) <= value < 1 << 64:
        return value
    return _Ext(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def _tagged_text(value: str) -> Any:
    try:
        value.encode()
    except UnicodeEncodeError:
        return _Ext(_TEXT, value.encode("utf-8", "surrogatepass"))
    return value


def _tagged_list(value: list[Any]) -> Any:
    if _SIMPLE.issuperset(map(type, value)):
        try:
            return _Ext(_LIST, _encoder.encode(value))
        except (OverflowError, UnicodeEncodeError):
            pass
    return _Ext(_LIST, _encoder.encode([_tagged(each) for each in value]))


def _tagged_tuple(value: tuple[Any, ...]) -> Any:
    return tuple([each if type(each) in _FIXED else _tagged(each) for each in value])


def _tagged_set(code: int) -> Callable[[Any], Any]:
    """Sort the elements by their bytes, so that equal sets have equal bytes."""
    return lambda value: _Ext(
        code,
        _encoder.encode([msgspec.Raw(each) for each in sorted(_encoder.encode(_tagged(i)) for i in value)]),
    )


def _tagged_map(value: dict[Any, Any]) -> Any:
    if all(type(each) is str and _tagged_text(each) is each for each in value):
        return {name: _tagged(each) for name, each in value.items()}
    return _Ext(_MAP, _encoder.encode([_tagged(each) for pair in value.items() for each in pair]))


def _tagged_time(value: datetime.time) -> Any:
    return _Ext(_TIME, f"{value.isoformat()}{_fold(value)}".encode())


def _tagged_datetime(value: datetime.datetime) -> Any:
    return _Ext(_DATETIME, f"{value.isoformat()}{_fold(value)}".encode())


def _fold(value: datetime.time | datetime.datetime) -> str:
    return "~" if value.fold else ""


_Ext = msgspec.msgpack.Ext
_encoder = msgspec.msgpack.Encoder()
_TAGS: dict[type, Callable[[Any], Any]] = {
    _NoneType: _same,
    bool: _same,
    float: _same,
    bytes: _same,
    int: _tagged_integer,
    str: _tagged_text,
    tuple: _tagged_tuple,
    list: _tagged_list,
    set: _tagged_set(_SET),
    frozenset: _tagged_set(_FROZENSET),
    dict: _tagged_map,
    decimal.Decimal: lambda value: _Ext(_DECIMAL, str(value).encode()),
    datetime.date: lambda value: _Ext(_DATE, value.isoformat().encode()),
    datetime.time: _tagged_time,
    datetime.datetime: _tagged_datetime,
    datetime.timedelta: lambda value: _Ext(
        _TIMEDELTA, _encoder.encode((value.days, value.seconds, value.microseconds))
    ),
    bytearray: lambda value: bytes(value),
    Counter: lambda value: _Ext(
        _COUNTER, _encoder.encode([_tagged(each) for pair in value.items() for each in pair])
    ),
    deque: lambda value: _Ext(_DEQUE, _encoder.encode([value.maxlen, *map(_tagged, value)])),
}


class _Settled:
    """List or dictionary of an extension type. `_settled` keeps it; MessagePack arrays become tuples."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


_CONTAINERS = frozenset((list, dict, _Settled))


def _extension(code: int, data: memoryview) -> Any:
    reader = _READERS.get(code)
    if reader is None:
        raise ValueError(f"extension type {code} is unknown")
    return reader(data)


def _settled(value: Any) -> Any:
    kind = type(value)
    if kind is list:
        return tuple(value) if _CONTAINERS.isdisjoint(map(type, value)) else tuple(map(_settled, value))
    if kind is _Settled:
        return value.value
    if kind is dict:
        return {name: _settled(each) for name, each in value.items()}
    return value


def _array(data: memoryview) -> list[Any]:
    found = _extended_decoder.decode(data)
    if type(found) is not list:
        raise ValueError("an array is missing")
    return found if _CONTAINERS.isdisjoint(map(type, found)) else [_settled(each) for each in found]


def _pairs(data: memoryview) -> Any:
    flat = _array(data)
    return zip(flat[::2], flat[1::2], strict=True)


def _text(data: memoryview) -> str:
    return str(data, "ascii")


def _read_time(data: memoryview) -> datetime.time:
    text = _text(data)
    return datetime.time.fromisoformat(text.rstrip("~")).replace(fold=text.endswith("~"))


def _read_datetime(data: memoryview) -> datetime.datetime:
    text = _text(data)
    return datetime.datetime.fromisoformat(text.rstrip("~")).replace(fold=text.endswith("~"))


def _read_deque(data: memoryview) -> deque[Any]:
    longest, *values = _array(data)
    return deque(values, longest)


_READERS: dict[int, Callable[[memoryview], Any]] = {
    _LIST: lambda data: _Settled(_array(data)),
    _SET: lambda data: set(_array(data)),
    _FROZENSET: lambda data: frozenset(_array(data)),
    _MAP: lambda data: _Settled(dict(_pairs(data))),
    _INTEGER: lambda data: int.from_bytes(data, "big", signed=True),
    _DECIMAL: lambda data: decimal.Decimal(_text(data)),
    _DATE: lambda data: datetime.date.fromisoformat(_text(data)),
    _TIME: _read_time,
    _DATETIME: _read_datetime,
    _TIMEDELTA: lambda data: datetime.timedelta(*_array(data)),
    _TEXT: lambda data: str(data, "utf-8", "surrogatepass"),
    _COUNTER: lambda data: Counter(dict(_pairs(data))),
    _DEQUE: _read_deque,
}
_extended_decoder = msgspec.msgpack.Decoder(ext_hook=_extension)


def _plain_type() -> Any:
    """Return msgspec's type for plain values. It has a fixed depth, because types cannot refer to themselves."""
    scalar = bool | int | float | str | None
    key = scalar | tuple[scalar | tuple[scalar, ...], ...]
    kind: Any = scalar
    for _ in range(_PLAIN_DEPTH):
        kind = scalar | tuple[kind, ...] | dict[key, kind]
    return kind


_plain_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(_plain_type())
