"""Program that writes columns as a message, and the default schema of columns."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FieldDescriptorProto

from ottla.spark.formats.column_tree import Column, Layout
from ottla.spark.formats.protobuf import encode_operations as op
from ottla.spark.formats.protobuf import messages as columns
from ottla.spark.formats.protobuf.messages import DURATION, ProtobufError, Types
from ottla.spark.formats.protobuf.operations import BYTES_WIRE, EIGHT, FOUR, VARINT
from ottla.spark.options import OptionError

_Field = FieldDescriptorProto
_WIRES = {
    **dict.fromkeys((_Field.TYPE_DOUBLE, _Field.TYPE_FIXED64, _Field.TYPE_SFIXED64), EIGHT),
    **dict.fromkeys((_Field.TYPE_FLOAT, _Field.TYPE_FIXED32, _Field.TYPE_SFIXED32), FOUR),
    **dict.fromkeys((_Field.TYPE_STRING, _Field.TYPE_BYTES, _Field.TYPE_MESSAGE), BYTES_WIRE),
}
_INT32, _UINT32 = (-(1 << 31), (1 << 31) - 1), (0, (1 << 32) - 1)
_INT64 = (-(1 << 63), (1 << 63) - 1)


class Tables(NamedTuple):
    """Program in the form of the compiled loop."""

    code: Any
    side: Any
    constants: Any
    levels: int
    depth: int


class EncodeProgram:
    """Raises ProtobufError if the message does not fit the columns."""

    def __init__(self, types: Types, message: str, layout: Layout) -> None:
        self._types = types
        self._code: list[list[int]] = []
        self._wheres: list[str] = []
        self._side: list[int] = []
        self._constants = bytearray()
        self._where = ""
        self._message(message, layout.root, "")
        self._emit(op.DONE)
        self.tables = Tables(
            np.array(self._code, np.int64),
            np.array([*self._side, 0], np.int64),
            np.frombuffer(bytes(self._constants) + b"\0", np.uint8),
            layout.levels,
            # A program cannot nest deeper than its length.
            len(self._code) + 1,
        )

    def reason(self, status: int, pc: int) -> str:
        return op.REASONS[status].format(where=self._wheres[pc] or "the value")

    def _emit(self, code: int, a: int = -1, b: int = 0, c: int = 0, after: int = 0) -> int:
        self._code.append([code, a, b, c, after])
        self._wheres.append(self._where)
        return len(self._code) - 1

    def _end(self, *jumps: int) -> None:
        for each in jumps:
            self._code[each][op.AFTER] = len(self._code)

    def _tag(self, field: FieldDescriptorProto, wire: int) -> None:
        data = _varint(field.number << 3 | wire)
        self._emit(op.LITERAL, -1, len(self._constants), len(data))
        self._constants += data

    def _message(self, name: str, column: Column, where: str) -> None:
        if not pa.types.is_struct(column.type):
            raise ProtobufError(f"{where or 'the value'} is {column.type}, and the schema wants a message")
        fields = {each.name: each for each in self._types.message(name).field}
        for child, kind in zip(column.children, column.type, strict=True):
            path = f"{where}.{kind.name}".removeprefix(".")
            field = fields.get(kind.name)
            if field is None:
                raise ProtobufError(f"the schema has no field {path}")
            self._where = path
            null = self._emit(op.IF_NULL, child.index)
            if field.label == _Field.LABEL_REPEATED:
                self._repeated(field, child, path)
            else:
                self._tag(field, _WIRES.get(field.type, VARINT))
                self._one(field, child, path)
            self._end(null)

    def _repeated(self, field: FieldDescriptorProto, column: Column, where: str) -> None:
        entry = columns.map_entry(self._types, field)
        misfit = ProtobufError(
            f"{where} is {column.type}, and the schema wants {'a map' if entry else 'a list'}"
        )
        if (entry is not None) != pa.types.is_map(column.type) or not column.children:
            raise misfit
        if entry is None and not pa.types.is_list(column.type):
            raise misfit
        wire = _WIRES.get(field.type, VARINT)
        packed = wire != BYTES_WIRE and self._types.is_packed(field)
        jumps = []
        if packed:
            jumps.append(self._emit(op.IF_EMPTY, column.index))
            self._tag(field, BYTES_WIRE)
            self._emit(op.BEGIN)
        begin = self._emit(op.LOOP, column.index, column.inner)
        if not packed:
            self._tag(field, wire)
        if entry is None:
            element = column.children[0]
            self._emit(op.REQUIRE, element.index)
            self._one(field, element, f"{where}[]")
        else:
            self._entry(entry, column, where)
        self._where = where
        self._emit(op.NEXT, after=begin)
        self._end(begin)
        if packed:
            self._emit(op.END)
        self._end(*jumps)

    def _entry(self, entry: DescriptorProto, column: Column, where: str) -> None:
        self._emit(op.BEGIN)
        for part, child in zip(entry.field, column.children, strict=True):
            self._where = f"{where}{{}}"
            self._emit(op.REQUIRE, child.index)
            self._tag(part, _WIRES.get(part.type, VARINT))
            self._one(part, child, f"{where}{{}}")
        self._emit(op.END)

    def _one(self, field: FieldDescriptorProto, column: Column, where: str) -> None:
        """Emit code for a value other than null, without its tag."""
        self._where = where
        kind, at, name = field.type, column.index, field.type_name.lstrip(".")
        if kind == _Field.TYPE_GROUP:
            raise ProtobufError(f"{where} is a group, which is not written")
        if kind == _Field.TYPE_MESSAGE and name in columns.TIMES:
            wanted = columns.TIMES[name]
            if not (pa.types.is_timestamp(column.type) and wanted != DURATION and column.type.tz) and (
                column.type != DURATION or wanted != DURATION
            ):
                raise ProtobufError(f"{where} is {column.type}, and the schema wants {name}")
            self._emit(op.TIME, at, int(wanted != DURATION))
            return
        if kind == _Field.TYPE_MESSAGE:
            self._emit(op.BEGIN)
            if columns.is_wrapper(name):
                inner = self._types.message(name).field[0]
                self._tag(inner, _WIRES.get(inner.type, VARINT))
                self._one(inner, column, where)
            else:
                self._message(name, column, where)
            self._where = where
            self._emit(op.END)
            return
        self._scalar(field, column, where)

    def _scalar(self, field: FieldDescriptorProto, column: Column, where: str) -> None:
        kind, found, at = field.type, column.type, column.index
        whole = pa.types.is_integer(found)
        if kind in (_Field.TYPE_INT32, _Field.TYPE_INT64, _Field.TYPE_UINT32) and whole:
            limits = {_Field.TYPE_INT32: _INT32, _Field.TYPE_UINT32: _UINT32}.get(kind, _INT64)
            self._emit(op.VARINT, at, *limits)
        elif kind in (_Field.TYPE_SINT32, _Field.TYPE_SINT64) and whole:
            if kind == _Field.TYPE_SINT32 and found == pa.int64():
                raise ProtobufError(f"{where} is {found}, and the schema wants sint32")
            self._emit(op.ZIGZAG, at)
        elif kind in (_Field.TYPE_FIXED32, _Field.TYPE_SFIXED32) and whole:
            self._emit(op.FOUR, at, *(_UINT32 if kind == _Field.TYPE_FIXED32 else _INT32))
        elif kind == _Field.TYPE_SFIXED64 and whole:
            self._emit(op.EIGHT, at)
        elif (
            kind in (_Field.TYPE_UINT64, _Field.TYPE_FIXED64)
            and pa.types.is_decimal(found)
            and not found.scale
        ):
            self._emit(op.UNSIGNED if kind == _Field.TYPE_UINT64 else op.EIGHT, at, 1)
        elif kind == _Field.TYPE_BOOL and pa.types.is_boolean(found):
            self._emit(op.VARINT, at, *_INT64)
        elif kind == _Field.TYPE_FLOAT and pa.types.is_float32(found):
            self._emit(op.FOUR, at, *_INT64)
        elif kind == _Field.TYPE_DOUBLE and pa.types.is_float64(found):
            self._emit(op.EIGHT, at)
        elif (kind == _Field.TYPE_STRING and pa.types.is_string(found)) or (
            kind == _Field.TYPE_BYTES and pa.types.is_binary(found)
        ):
            self._emit(op.BYTES, at)
        elif kind == _Field.TYPE_ENUM and pa.types.is_string(found):
            self._enum(field, at)
        else:
            wanted = _Field.Type.Name(kind).removeprefix("TYPE_").lower()
            raise ProtobufError(f"{where} is {found}, and the schema wants {wanted}")

    def _enum(self, field: FieldDescriptorProto, at: int) -> None:
        found = self._types.all.get(field.type_name.lstrip("."))
        assert isinstance(found, EnumDescriptorProto)
        table = len(self._side)
        for value in found.value:
            self._side += [value.number, len(self._constants), len(value.name.encode())]
            self._constants += value.name.encode()
        self._emit(op.ENUM, at, table, len(found.value))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


# Default schema of columns

_SCALARS = {
    pa.bool_(): "bool",
    pa.int8(): "int32",
    pa.int16(): "int32",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.decimal128(20, 0): "uint64",
}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_KEYS = ("int32", "int64", "bool", "string")


def schema_of(kind: pa.DataType) -> str:
    """Return the default .proto file for a column."""
    if not pa.types.is_struct(kind):
        raise OptionError(f"A message of Protobuf is written from a struct, not from {kind}.")
    imports: set[str] = set()
    body = _message(kind, "TopLevelRecord", "", imports)
    lines = [
        'syntax = "proto3";',
        *(f'import "google/protobuf/{each}.proto";' for each in sorted(imports)),
        *body,
    ]
    return "\n".join(lines) + "\n"


def _message(kind: pa.DataType, name: str, where: str, imports: set[str]) -> list[str]:
    lines = [f"message {name} {{"]
    names = {each.name for each in kind}
    for number, field in enumerate(kind, 1):
        path = f"{where}.{field.name}".removeprefix(".")
        if _IDENTIFIER.match(field.name) is None:
            raise OptionError(f"{path} is not a valid Protobuf field name. Rename the column.")
        inner = "".join(part[:1].upper() + part[1:] for part in field.name.split("_")) or "Nested"
        while inner in names:
            inner += "_"
        lines += [f"  {line}" for line in _field(field, number, inner, path, imports)]
    return [*lines, "}"]


def _field(field: pa.Field, number: int, inner: str, where: str, imports: set[str]) -> list[str]:
    kind = field.type
    if pa.types.is_map(kind):
        key = _SCALARS.get(kind.key_type, "")
        if key not in _KEYS:
            raise OptionError(
                f"{where} is a map whose keys are {kind.key_type}, which Protobuf does not have."
            )
        name, lines = _name(kind.item_type, inner, where, imports)
        return [*lines, f"map<{key}, {name}> {field.name} = {number};"]
    if pa.types.is_list(kind):
        name, lines = _name(kind.value_type, inner, where, imports)
        return [*lines, f"repeated {name} {field.name} = {number};"]
    name, lines = _name(kind, inner, where, imports)
    optional = "optional " if kind in _SCALARS else ""
    return [*lines, f"{optional}{name} {field.name} = {number};"]


def _name(kind: pa.DataType, inner: str, where: str, imports: set[str]) -> tuple[str, list[str]]:
    if pa.types.is_struct(kind):
        return inner, _message(kind, inner, where, imports)
    if pa.types.is_timestamp(kind) and kind.tz:
        imports.add("timestamp")
        return "google.protobuf.Timestamp", []
    if kind == DURATION:
        imports.add("duration")
        return "google.protobuf.Duration", []
    if kind not in _SCALARS:
        raise OptionError(
            f"{where} is {kind}, which Protobuf does not have: cast it to another type, such as STRING."
        )
    return _SCALARS[kind], []
