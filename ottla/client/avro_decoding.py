"""Decode Avro's binary encoding to Avro's JSON encoding, with bounds on the work that a payload can cause.

An array of nulls takes no bytes per item, so ten bytes can claim millions of items. A recursive schema nests as deep as
the data says, and fastavro crashes the interpreter on a few thousand levels. Payloads are untrusted, so the decoder
bounds both: items by the size of the payload, levels by a constant.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

#: Maximum nesting of records, arrays and maps. Protobuf has the same limit.
MOST_LEVELS = 100
_ITEMS_PER_BYTE = 8
_ITEMS_AT_LEAST = 10_000
_LONGEST_VARINT = 10

_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")
_RECORDS = ("record", "error")


class BadAvro(ValueError):
    """An undecodable payload. The message gives the reason in a few words."""


class _Cursor:
    __slots__ = ("at", "data", "left", "levels")

    def __init__(self, data: bytes, items: int) -> None:
        self.data = data
        self.at = 0
        self.left = items
        self.levels = MOST_LEVELS

    def spend(self, items: int) -> None:
        self.left -= items
        if self.left < 0:
            raise BadAvro("it has more items than its size allows for")

    def enter(self) -> None:
        self.levels -= 1
        if self.levels < 0:
            raise BadAvro(f"it nests more than {MOST_LEVELS} levels deep")

    def take(self, size: int) -> bytes:
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise BadAvro("it ends too early")
        found = self.data[self.at : end]
        self.at = end
        return found


Read = Callable[[_Cursor], Any]


class AvroDecoder:
    """Decodes payloads of one schema parsed by `fastavro.parse_schema`. Thread-safe."""

    def __init__(self, parsed: Any, named: Mapping[str, Any]) -> None:
        self._named = named
        self._readers: dict[str, Read] = {}
        self._read = self._reader(parsed)

    def decode(self, data: bytes, most_items: int | None = None) -> Any:
        """Raises BadAvro on a payload that does not fit, or whose items or levels exceed their bounds."""
        items = _ITEMS_AT_LEAST + _ITEMS_PER_BYTE * len(data)
        cursor = _Cursor(data, items if most_items is None else min(items, most_items))
        try:
            found = self._read(cursor)
        except IndexError:
            raise BadAvro("it ends too early") from None
        if cursor.at < len(data):
            raise BadAvro("there are bytes behind its end")
        return found

    def _reader(self, schema: Any) -> Read:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return _PRIMITIVES[schema] if schema in _PRIMITIVES else self._by_name(schema)
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self._reader(kind)
        match kind:
            case "record" | "error":
                return self._record(schema)
            case "array":
                return _array(self._reader(schema["items"]))
            case "map":
                return _map(self._reader(schema["values"]))
            case "enum":
                return _enum(list(schema["symbols"]))
            case "fixed":
                size = int(schema["size"])
                return lambda cursor: cursor.take(size).decode("latin-1")
            case _:
                return self._reader(kind)

    def _by_name(self, name: str) -> Read:
        """Return a reader that resolves the name on use, because a record may contain itself."""
        if name not in self._readers and name in self._named:
            self._readers[name] = lambda cursor: self._readers[name](cursor)
            self._readers[name] = self._reader(self._named[name])
        if name not in self._readers:
            raise BadAvro(f"the schema does not define {name}")
        return lambda cursor: self._readers[name](cursor)

    def _record(self, schema: Mapping[str, Any]) -> Read:
        name = schema["name"]
        self._readers.setdefault(name, lambda cursor: self._readers[name](cursor))
        fields = [(each["name"], self._reader(each["type"])) for each in schema["fields"]]
        cost = len(fields)

        def read(cursor: _Cursor) -> dict[str, Any]:
            cursor.spend(cost)
            cursor.enter()
            found = {name: read_field(cursor) for name, read_field in fields}
            cursor.levels += 1
            return found

        self._readers[name] = read
        return read

    def _union(self, branches: list[Any]) -> Read:
        readers = [(_label(each), self._reader(each)) for each in branches]

        def read(cursor: _Cursor) -> Any:
            index = _long(cursor)
            if not 0 <= index < len(readers):
                raise BadAvro(f"a union has no branch {index}")
            label, read_branch = readers[index]
            return None if label == "null" else {label: read_branch(cursor)}

        return read


def is_bounded(parsed: Any, named: Mapping[str, Any]) -> bool:
    """Return True if the payload's size bounds the output of a decoder without limits.

    This holds if no record contains itself, every array item takes bytes, and no record is very wide.
    """
    try:
        return _Shapes(named).of(parsed).values <= _ITEMS_AT_LEAST
    except _Unbounded:
        return False


class _Unbounded(Exception):
    pass


class _Shape(NamedTuple):
    """Number of values in one value, without array and map items, and True if it may take no bytes."""

    values: int
    may_be_empty: bool


class _Shapes:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._known: dict[str, _Shape] = {}
        self._open: set[str] = set()

    def of(self, schema: Any) -> _Shape:
        if isinstance(schema, list):
            return _Shape(max((self.of(each).values for each in schema), default=0) + 1, False)
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return _Shape(1, schema == "null")
            return self._record(schema, self._named.get(schema, {}))
        kind = schema["type"]
        if kind in _RECORDS:
            return self._record(schema["name"], schema)
        if kind in ("array", "map"):
            item = self.of(schema["items" if kind == "array" else "values"])
            if item.values > _ITEMS_AT_LEAST or (kind == "array" and item.may_be_empty):
                raise _Unbounded
            return _Shape(1, False)
        if kind == "fixed":
            return _Shape(1, int(schema["size"]) == 0)
        return _Shape(1, False) if kind == "enum" else self.of(kind)

    def _record(self, name: str, schema: Mapping[str, Any]) -> _Shape:
        if schema.get("type") not in _RECORDS:
            return self.of(schema) if schema else _Shape(1, False)
        if name in self._open or len(self._open) >= MOST_LEVELS:
            raise _Unbounded
        if name not in self._known:
            self._open.add(name)
            fields = [self.of(each["type"]) for each in schema["fields"]]
            self._open.discard(name)
            self._known[name] = _Shape(
                1 + sum(each.values for each in fields), all(each.may_be_empty for each in fields)
            )
        return self._known[name]


def _label(branch: Any) -> str:
    if isinstance(branch, str):
        return branch
    kind = branch["type"]
    return str(branch["name"]) if kind in (*_RECORDS, "enum", "fixed") else _label(kind)


def _long(cursor: _Cursor) -> int:
    data, at = cursor.data, cursor.at
    byte = data[at]
    value, shift = byte & 0x7F, 7
    while byte & 0x80:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 7 * _LONGEST_VARINT:
            raise BadAvro("a number has too many bytes")
    cursor.at = at + 1
    return (value >> 1) ^ -(value & 1)


def _boolean(cursor: _Cursor) -> bool:
    return cursor.take(1) != b"\0"


def _bytes(cursor: _Cursor) -> str:
    return cursor.take(_long(cursor)).decode("latin-1")


def _string(cursor: _Cursor) -> str:
    return cursor.take(_long(cursor)).decode()


def _float(cursor: _Cursor) -> float:
    return float(_FLOAT.unpack(cursor.take(4))[0])


def _double(cursor: _Cursor) -> float:
    return float(_DOUBLE.unpack(cursor.take(8))[0])


_PRIMITIVES: dict[str, Read] = {
    "null": lambda _: None,
    "boolean": _boolean,
    "int": _long,
    "long": _long,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _string,
}


def _enum(symbols: list[str]) -> Read:
    def read(cursor: _Cursor) -> str:
        index = _long(cursor)
        if not 0 <= index < len(symbols):
            raise BadAvro(f"an enum has no symbol {index}")
        return symbols[index]

    return read


def _block(cursor: _Cursor) -> int:
    """Return the number of items in the next block; 0 ends an array or map."""
    count = _long(cursor)
    if count < 0:
        count = -count
        _long(cursor)  # size in bytes, for readers that skip the block
    cursor.spend(count)
    return count


def _array(read_item: Read) -> Read:
    def read(cursor: _Cursor) -> list[Any]:
        cursor.enter()
        found: list[Any] = []
        while count := _block(cursor):
            found += [read_item(cursor) for _ in range(count)]
        cursor.levels += 1
        return found

    return read


def _map(read_value: Read) -> Read:
    def read(cursor: _Cursor) -> dict[str, Any]:
        cursor.enter()
        found: dict[str, Any] = {}
        while count := _block(cursor):
            for _ in range(count):
                name = _string(cursor)
                found[name] = read_value(cursor)
        cursor.levels += 1
        return found

    return read
