"""Protobuf messages as columns, and the tables for decoding them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FieldDescriptorProto

from ottla.client.schema_registry import Schema
from ottla.registry.schemas.parsed import InvalidSchema
from ottla.registry.schemas.protobuf import ProtobufSchema, parse_protobuf
from ottla.registry.schemas.protobuf.resolver import types_of
from ottla.spark.formats import column_tree as tree
from ottla.spark.formats.column_tree import Column, Layout
from ottla.spark.formats.json_types import TIMESTAMP
from ottla.spark.formats.protobuf import operations as op
from ottla.spark.options import OptionError

_Field = FieldDescriptorProto
_MOST_COLUMNS = 10_000

DURATION = pa.duration("us")
_UINT64 = pa.decimal128(20, 0)

#: Protobuf type → operation and column type
_SCALARS: dict[int, tuple[int, pa.DataType]] = {
    _Field.TYPE_INT32: (op.INT32, pa.int32()),
    _Field.TYPE_INT64: (op.INT64, pa.int64()),
    _Field.TYPE_UINT32: (op.UINT32, pa.int64()),
    _Field.TYPE_UINT64: (op.UINT64, _UINT64),
    _Field.TYPE_SINT32: (op.SINT32, pa.int32()),
    _Field.TYPE_SINT64: (op.SINT64, pa.int64()),
    _Field.TYPE_BOOL: (op.BOOL, pa.bool_()),
    _Field.TYPE_ENUM: (op.ENUM, pa.string()),
    _Field.TYPE_FIXED32: (op.FIXED32, pa.int64()),
    _Field.TYPE_SFIXED32: (op.SFIXED32, pa.int32()),
    _Field.TYPE_FLOAT: (op.FLOAT, pa.float32()),
    _Field.TYPE_FIXED64: (op.FIXED64, _UINT64),
    _Field.TYPE_SFIXED64: (op.SFIXED64, pa.int64()),
    _Field.TYPE_DOUBLE: (op.DOUBLE, pa.float64()),
    _Field.TYPE_STRING: (op.STRING, pa.string()),
    _Field.TYPE_BYTES: (op.BYTES, pa.binary()),
}
_WRAPPERS = {
    "DoubleValue", "FloatValue", "Int64Value", "UInt64Value", "Int32Value", "UInt32Value", "BoolValue", "StringValue",
    "BytesValue",
}  # fmt: skip
TIMES = {"google.protobuf.Timestamp": TIMESTAMP, "google.protobuf.Duration": DURATION}


class ProtobufError(Exception):
    """The messages do not fit the columns. The message says why."""


class Types:
    """Messages and enums of a schema and its imports, by full name."""

    def __init__(self, schema: Schema, referenced: dict[str, Schema]) -> None:
        try:
            parsed: dict[str, ProtobufSchema] = {}
            for name, each in referenced.items():
                parsed[name] = parse_protobuf(each.text, parsed)
            file = parse_protobuf(schema.text, parsed)
        except InvalidSchema as error:
            raise ProtobufError(str(error)) from None
        self.file = file.raw
        self.all: dict[str, DescriptorProto | EnumDescriptorProto] = {}
        self._proto3: dict[str, bool] = {}
        for each_file in (*file.imports.values(), file.raw):
            for name, kind in types_of(each_file):
                self.all[name] = kind
                self._proto3[name] = each_file.syntax == "proto3"

    def by_indexes(self, indexes: tuple[int, ...]) -> str:
        messages, name = self.file.message_type, self.file.package
        for index in indexes:
            if not 0 <= index < len(messages):
                raise ProtobufError(f"it has no message {'.'.join(map(str, indexes))}")
            name = f"{name}.{messages[index].name}".removeprefix(".")
            messages = messages[index].nested_type
        return str(name)

    def by_name(self, wanted: str) -> str:
        """Return the full name of a message, given with or without its package."""
        for name in (wanted, f"{self.file.package}.{wanted}"):
            if isinstance(self.all.get(name), DescriptorProto):
                return name
        raise ProtobufError(f"it has no message '{wanted}'")

    def message(self, name: str) -> DescriptorProto:
        found = self.all.get(name)
        if not isinstance(found, DescriptorProto):
            raise ProtobufError(f"it has no message '{name}'")
        return found

    def indexes_of(self, name: str) -> bytes:
        path: list[int] = []
        messages, rest = self.file.message_type, name.removeprefix(f"{self.file.package}.").split(".")
        for part in rest:
            path.append(next(index for index, each in enumerate(messages) if each.name == part))
            messages = messages[path[-1]].nested_type
        if path == [0]:
            return b"\0"
        return b"".join(_zigzag(each) for each in (len(path), *path))

    def is_packed(self, field: FieldDescriptorProto) -> bool:
        if field.options.HasField("packed"):
            return bool(field.options.packed)
        return bool(self.file.syntax == "proto3")

    def has_presence(self, message: str, field: FieldDescriptorProto) -> bool:
        """Return True if a missing field differs from a field with its default."""
        if field.label == _Field.LABEL_REPEATED:
            return False
        if field.type in (_Field.TYPE_MESSAGE, _Field.TYPE_GROUP) or field.HasField("oneof_index"):
            return True
        return not self._proto3.get(message, False)


def columns_of(types: Types, message: str) -> Column:
    return _Columns(types).message(message, ())


class _Columns:
    def __init__(self, types: Types) -> None:
        self._types = types
        self._count = 0

    def message(self, name: str, above: tuple[str, ...]) -> Column:
        if name in above:
            raise OptionError(f"The message {name} contains itself, which no type of Spark can.")
        found = self._types.message(name)
        above = (*above, name)
        fields = [each for each in found.field if each.type != _Field.TYPE_GROUP]
        return tree.struct([each.name for each in fields], [self._field(each, above) for each in fields])

    def _field(self, field: FieldDescriptorProto, above: tuple[str, ...]) -> Column:
        self._count += 1
        if self._count > _MOST_COLUMNS:
            raise OptionError(f"The schema has more than {_MOST_COLUMNS} columns.")
        if field.label != _Field.LABEL_REPEATED:
            return self._one(field, above)
        entry = map_entry(self._types, field)
        if entry is None:
            return tree.array(self._one(field, above))
        return tree.mapping(self._one(entry.field[0], above), self._one(entry.field[1], above))

    def _one(self, field: FieldDescriptorProto, above: tuple[str, ...]) -> Column:
        if field.type != _Field.TYPE_MESSAGE:
            return _column(_SCALARS[field.type][1])
        name = field.type_name.lstrip(".")
        if name in TIMES:
            return tree.number(TIMES[name])
        if is_wrapper(name):
            return _column(_SCALARS[self._types.message(name).field[0].type][1])
        return self.message(name, above)


class Tables(NamedTuple):
    """Fields of all messages in the form of the compiled loop."""

    fields: Any
    ranges: Any
    begins: Any
    initial: Any
    side: Any
    inner: Any


#: A column, its initial state, and up to two slots.
_Initial = tuple[int, int, int, int]


class MessageTables:
    """Tables that grow with each added message. All messages are decoded to the same columns."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._fields: list[list[int]] = []
        self._ranges: list[tuple[int, int]] = []
        self._begins: list[tuple[int, int]] = []
        self._initial: list[_Initial] = []
        self._side: list[int] = []
        self._names: list[str] = []
        self.constants = bytearray()
        self._tables: Tables | None = None

    def add(self, types: Types, message: str) -> int:
        """Return the number of a message. Raises ProtobufError if the columns do not fit its fields."""
        self._tables = None
        return self._message(types, message, self._layout.root)

    def name(self, number: int) -> str:
        return self._names[number]

    @property
    def tables(self) -> Tables:
        if self._tables is None:
            self._tables = Tables(
                np.array(self._fields or [[0] * 8], np.int64),
                np.array(self._ranges or [(0, 0)], np.int64),  # while no message is known
                np.array(self._begins or [(0, 0)], np.int64),
                np.array(self._initial or [(0, 0, 0, 0)], np.int64),
                np.array([*self._side, 0], np.int64),
                np.array([each.inner for each in self._layout.columns], np.int64),
            )
        return self._tables

    def _message(self, types: Types, name: str, column: Column) -> int:
        if not pa.types.is_struct(column.type):
            raise ProtobufError(f"{name} is a message, and the column is {column.type}")
        names = [each.name for each in column.type]
        found = types.message(name)
        wanted = [(names.index(each.name), each) for each in found.field if each.name in names]
        # Columns are null until their field arrives. Fields without presence start with their default.
        known = dict(wanted)
        initial: list[_Initial] = []
        for index, child in enumerate(column.children):
            field = known.get(index)
            default = field is not None and not types.has_presence(name, field)
            initial += [(each.index, op.AS_NULL, 0, 0) for each in child.together]
            if default and field is not None:
                initial.append(self._default(types, field, child))
        rows: list[list[int]] = []
        for index, field in wanted:
            if field.type != _Field.TYPE_GROUP:
                row = self._field(types, field, column.children[index])
                others = self._others(found, field, names, column)
                row[op.OTHERS], row[op.OTHER_COUNT] = len(self._side), len(others)
                self._side += others
                rows.append(row)
        return self._add(name, rows, initial)

    def _add(self, name: str, rows: list[list[int]], initial: list[_Initial]) -> int:
        self._ranges.append((len(self._fields), len(self._fields) + len(rows)))
        self._begins.append((len(self._initial), len(self._initial) + len(initial)))
        self._fields += rows
        self._initial += initial
        self._names.append(name)
        return len(self._names) - 1

    def _others(
        self, message: DescriptorProto, field: FieldDescriptorProto, names: list[str], column: Column
    ) -> list[int]:
        """Return the columns of the other members of a oneof, which become null."""
        if not field.HasField("oneof_index") or field.proto3_optional:
            return []
        return [
            below.index
            for each in message.field
            if each.HasField("oneof_index")
            and each.oneof_index == field.oneof_index
            and each.number != field.number
            and each.name in names
            for below in column.children[names.index(each.name)].together
        ]

    def _field(self, types: Types, field: FieldDescriptorProto, column: Column) -> list[int]:
        if field.label != _Field.LABEL_REPEATED:
            return self._one(types, field, column, -1)
        entry = map_entry(types, field)
        if entry is not None and pa.types.is_map(column.type):
            return self._map(types, field, entry, column)
        if entry is None and pa.types.is_list(column.type):
            return self._one(types, field, column.children[0], column.index)
        raise ProtobufError(f"{field.name} is repeated, and the column is {column.type}")

    def _map(
        self, types: Types, field: FieldDescriptorProto, entry: DescriptorProto, column: Column
    ) -> list[int]:
        rows, initial = [], []
        for part, child in zip(entry.field, column.children, strict=True):
            rows.append(self._one(types, part, child, -1))
            initial += [(each.index, op.AS_NULL, 0, 0) for each in child.together]
            if part.type != _Field.TYPE_MESSAGE:
                initial.append(self._default(types, part, child))
        number = self._add(f"{field.name}{{}}", rows, initial)
        return [field.number, op.MESSAGE, -1, column.index, number, 0, 0, op.BYTES_WIRE]

    def _one(self, types: Types, field: FieldDescriptorProto, column: Column, of: int) -> list[int]:
        at, name = column.index, field.type_name.lstrip(".")
        if field.type == _Field.TYPE_MESSAGE:
            if name in TIMES:
                _check(field, column, TIMES[name])
                seconds = [1, op.SECONDS, at, -1, 0, 0, 0, op.VARINT]
                nanos = [2, op.NANOS, at, -1, 0, 0, 0, op.VARINT]
                number = self._add(field.name, [seconds, nanos], [(at, op.AS_DEFAULT, 0, 0)])
                return [field.number, op.MESSAGE, -1, of, number, 0, 0, op.BYTES_WIRE]
            if is_wrapper(name):
                inner = types.message(name).field[0]
                row = self._one(types, inner, column, -1)
                number = self._add(field.name, [row], [(at, op.AS_DEFAULT, 0, 0)])
                return [field.number, op.MESSAGE, -1, of, number, 0, 0, op.BYTES_WIRE]
            number = self._message(types, name, column)
            return [field.number, op.MESSAGE, at, of, number, 0, 0, op.BYTES_WIRE]
        kind, wanted = _SCALARS[field.type]
        _check(field, column, wanted)
        extra = self._enum(types, name) if field.type == _Field.TYPE_ENUM else 0
        wire = op.VARINT if kind <= op.ENUM else op.FOUR if kind <= op.FLOAT else op.EIGHT
        if kind > op.DOUBLE:
            wire = op.BYTES_WIRE
        return [field.number, kind, at, of, extra, 0, 0, wire]

    def _default(self, types: Types, field: FieldDescriptorProto, column: Column) -> _Initial:
        """Return the initial value of a field without presence; the first symbol for an enum."""
        if field.type != _Field.TYPE_ENUM or field.label == _Field.LABEL_REPEATED:
            return column.index, op.AS_DEFAULT, 0, 0
        start = self._enum(types, field.type_name.lstrip("."))
        return column.index, op.AS_DEFAULT, self._side[start + 2], self._side[start + 3]

    def _enum(self, types: Types, name: str) -> int:
        found = types.all.get(name)
        if not isinstance(found, EnumDescriptorProto):
            raise ProtobufError(f"it has no enum '{name}'")
        if not found.value:
            raise ProtobufError(f"the enum '{name}' is empty")
        start = len(self._side)
        self._side.append(len(found.value))
        for value in found.value:
            symbol = value.name.encode()
            self._side += [value.number, -1 - len(self.constants), len(symbol)]
            self.constants += symbol
        return start


def _column(kind: pa.DataType) -> Column:
    if pa.types.is_decimal(kind):
        return tree.decimal(kind.precision, kind.scale)
    return tree.text(kind) if kind in (pa.string(), pa.binary()) else tree.number(kind)


def _check(field: FieldDescriptorProto, column: Column, wanted: pa.DataType) -> None:
    if column.type != wanted:
        raise ProtobufError(f"{field.name} is {wanted}, and the column is {column.type}")


def is_wrapper(name: str) -> bool:
    package, _, short = name.rpartition(".")
    return package == "google.protobuf" and short in _WRAPPERS


def map_entry(types: Types, field: FieldDescriptorProto) -> DescriptorProto | None:
    if field.type != _Field.TYPE_MESSAGE:
        return None
    found = types.message(field.type_name.lstrip("."))
    return found if found.options.map_entry else None


def _zigzag(value: int) -> bytes:
    value, out = value << 1, bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
