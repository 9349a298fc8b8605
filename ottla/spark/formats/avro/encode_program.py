"""Program that writes columns with an Avro schema, and the default schema of columns."""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.spark.formats.avro import encode_operations as op
from ottla.spark.formats.avro.columns import members_of
from ottla.spark.formats.avro.schema import Field, Node
from ottla.spark.formats.column_tree import NOTHING, STRUCT, Column, Layout

_INT_MIN, _LONG_MIN = -(1 << 31), -(1 << 63)


class Unwritable(Exception):
    """The schema does not fit the columns."""


class Tables(NamedTuple):
    """Program in the form of the compiled loop."""

    code: Any
    side: Any
    constants: Any
    levels: int


class EncodeProgram:
    def __init__(self, schema: Node, layout: Layout, *, null_is_default: bool = False) -> None:
        """With `null_is_default`, a null in a field without null is written as the field's default, as in Connect."""
        self._null_is_default = null_is_default
        self._code: list[list[int]] = []
        self._wheres: list[str] = []
        self._side: list[int] = []
        self._constants = bytearray()
        self._where = ""
        # A row that is null as a whole is not written.
        root = layout.root
        branches = [each for each in schema.branches if each.type != "null"]
        if schema.type == "union" and len(branches) == 1:
            self._literal(_zigzag(schema.of.index(branches[0])))
            self._write(branches[0], root, "")
        else:
            self._write(schema, root, "", may_be_null=False)
        self._emit(op.DONE)
        self.tables = Tables(
            np.array(self._code, np.int64),
            np.array([*self._side, 0], np.int64),
            np.frombuffer(bytes(self._constants) + b"\0", np.uint8),
            layout.levels,
        )

    def reason(self, status: int, pc: int) -> str:
        return op.REASONS[status].format(where=self._wheres[pc] or "the value")

    def _emit(self, code: int, a: int = -1, b: int = 0, c: int = 0, after: int = 0) -> int:
        self._code.append([code, a, b, c, after])
        self._wheres.append(self._where)
        return len(self._code) - 1

    def _literal(self, data: bytes) -> None:
        self._emit(op.LITERAL, -1, len(self._constants), len(data))
        self._constants += data

    def _write(self, node: Node, column: Column, where: str, *, may_be_null: bool = True) -> None:
        self._where = where
        if node.type == "union":
            self._union(node, column, where)
            return
        if node.type == "null":
            if column.kind != NOTHING:
                raise self._misfit(node, column, where)
            return
        if may_be_null:
            self._emit(op.REQUIRE, column.index)
        self._some(node, column, where)

    def _union(self, node: Node, column: Column, where: str) -> None:
        null = next((index for index, each in enumerate(node.of) if each.type == "null"), -1)
        members = members_of(node)
        end: list[int] = []
        if null >= 0:
            end.append(self._emit(op.IF_NULL, column.index, null, -1))
        else:
            self._emit(op.REQUIRE, column.index)
        fitting = self._fitting(members, column)
        if fitting is not None:
            self._literal(_zigzag(node.of.index(fitting)))
            self._some(fitting, column, where)
        elif column.kind == STRUCT and len(column.children) == len(members) > 1:
            # For a general union, write the member that is not null.
            for member, child in zip(members, column.children, strict=True):
                test = self._emit(op.IF_NULL, child.index, -1, node.of.index(member))
                self._some(member, child, where)
                end.append(self._emit(op.JUMP))
                self._code[test][op.AFTER] = len(self._code)
            self._emit(op.REFUSE)
        elif column.kind == NOTHING and null >= 0:
            self._emit(op.REFUSE)
        else:
            raise self._misfit(node, column, where)
        for each in end:
            self._code[each][op.AFTER] = len(self._code)

    def _fitting(self, members: list[Node], column: Column) -> Node | None:
        # Use int for a long only if the union has no long.
        for member in sorted(members, key=lambda each: each.type == "int" and column.type == pa.int64()):
            state = len(self._code), len(self._side), len(self._constants), self._where
            try:
                self._some(member, column, "")
            except Unwritable:
                continue
            finally:
                code, side, constants, self._where = state
                del self._code[code:], self._wheres[code:], self._side[side:], self._constants[constants:]
            return member
        return None

    def _some(self, node: Node, column: Column, where: str) -> None:
        self._where = where
        kind, found, at = node.type, column.type, column.index
        if kind == "record" and pa.types.is_struct(found):
            self._record(node, column, where)
        elif kind == "array" and pa.types.is_list(found):
            self._loop(column, lambda: self._write(node.of[0], column.children[0], f"{where}[]"))
        elif kind == "map" and pa.types.is_map(found) and pa.types.is_string(found.key_type):
            self._loop(column, lambda: self._entry(node, column, where))
        elif node.logical == "decimal" and pa.types.is_decimal(found):
            if found.scale != node.scale or found.precision > node.precision:
                raise self._misfit(node, column, where)
            self._emit(op.DECIMAL, at, node.size if kind == "fixed" else -1)
        elif kind in ("int", "long") and _is_whole(found, node):
            divisor = 1000 if node.logical.endswith("timestamp-millis") else 1
            self._emit(op.WHOLE, at, divisor, _INT_MIN if kind == "int" else _LONG_MIN)
        elif kind == "boolean" and pa.types.is_boolean(found):
            self._emit(op.BOOLEAN, at)
        elif kind == "float" and pa.types.is_float32(found):
            self._emit(op.FLOAT, at)
        elif kind == "double" and pa.types.is_float64(found):
            self._emit(op.DOUBLE, at)
        elif (kind == "string" and pa.types.is_string(found)) or (
            kind == "bytes" and node.logical != "decimal" and pa.types.is_binary(found)
        ):
            self._emit(op.TEXT, at)
        elif kind == "fixed" and node.logical != "decimal" and pa.types.is_binary(found):
            self._emit(op.FIXED, at, node.size)
        elif kind == "enum" and pa.types.is_string(found):
            table = len(self._side)
            for symbol in node.symbols:
                self._side += [len(self._constants), len(symbol.encode())]
                self._constants += symbol.encode()
            self._emit(op.ENUM, at, table, len(node.symbols))
        else:
            raise self._misfit(node, column, where)

    def _record(self, node: Node, column: Column, where: str) -> None:
        names = [each.name for each in column.type]
        missing = [name for name in names if name not in {each.name for each in node.fields}]
        if missing:
            raise Unwritable(f"the schema has no field {f'{where}.{missing[0]}'.removeprefix('.')}")
        for field in node.fields:
            name = f"{where}.{field.name}".removeprefix(".")
            if field.name not in names:
                self._literal(_default(field, name))
                continue
            child = column.children[names.index(field.name)]
            if self._null_is_default and field.has_default and not _allows_null(field.node):
                test = self._emit(op.IF_NULL, child.index, -1, -1)
                self._write(field.node, child, name)
                end = self._emit(op.JUMP)
                self._code[test][op.AFTER] = len(self._code)
                self._literal(_default(field, name))
                self._code[end][op.AFTER] = len(self._code)
            else:
                self._write(field.node, child, name)

    def _loop(self, column: Column, body: Any) -> None:
        begin = self._emit(op.LOOP, column.index, column.inner)
        body()
        self._emit(op.NEXT, after=begin)
        self._code[begin][op.AFTER] = len(self._code)

    def _entry(self, node: Node, column: Column, where: str) -> None:
        self._emit(op.TEXT, column.children[0].index)
        self._write(node.of[0], column.children[1], f"{where}{{}}")

    def _misfit(self, node: Node, column: Column, where: str) -> Unwritable:
        return Unwritable(f"{where or 'the value'} is {column.type}, and the schema wants {node}")


def _allows_null(node: Node) -> bool:
    return any(each.type == "null" for each in node.branches)


def _zigzag(value: int) -> bytes:
    raw, out = (value << 1) ^ (value >> 63), bytearray()
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    return bytes([*out, raw])


def _default(field: Field, name: str) -> bytes:
    node, value = field.node, field.default
    if not field.has_default:
        raise Unwritable(f"there is no column for the field {name}, which has no default")
    if node.type == "union":
        index = 0 if value is not None else next(i for i, each in enumerate(node.of) if each.type == "null")
        return _zigzag(index) + _default(Field(field.name, node.of[index], (), value, True), name)
    if node.type == "null":
        return b""
    if node.type in ("array", "map") and not value:
        return b"\0"
    if node.type in ("int", "long"):
        return _zigzag(value)
    if node.type == "boolean":
        return bytes([value])
    if node.type in ("float", "double"):
        return struct.pack("<f" if node.type == "float" else "<d", value)
    if node.type == "enum":
        return _zigzag(node.symbols.index(value))
    if node.type in ("string", "bytes"):
        data = str(value).encode("utf-8" if node.type == "string" else "latin-1")
        return _zigzag(len(data)) + data
    if node.type == "fixed":
        return str(value).encode("latin-1")
    raise Unwritable(f"there is no column for the field {name}: add one")


def _is_whole(found: pa.DataType, node: Node) -> bool:
    if pa.types.is_date(found):
        return node.logical == "date"
    if pa.types.is_timestamp(found):
        local = node.logical.startswith("local-")
        return "timestamp-mi" in node.logical and local == (found.tz is None)
    return pa.types.is_integer(found) and node.logical not in ("date",) and "timestamp" not in node.logical


# Default schema of columns, as derived by spark-avro


def schema_of(kind: pa.DataType) -> str:
    """Return the default schema for a column as JSON."""
    return json.dumps(_schema(kind, "topLevelRecord", ""))


def _schema(kind: pa.DataType, name: str, space: str) -> Any:
    if pa.types.is_struct(kind):
        inner = f"{space}.{name}" if space else name
        fields = [
            {"name": each.name, "type": _nullable(_schema(each.type, each.name, inner))} for each in kind
        ]
        return {"type": "record", "name": name, **({"namespace": space} if space else {}), "fields": fields}
    if pa.types.is_map(kind):
        return {"type": "map", "values": _nullable(_schema(kind.item_type, name, space))}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _nullable(_schema(kind.value_type, name, space))}
    if pa.types.is_decimal(kind):
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": f"{space}.{name}" if space else name,
            "size": _bytes_for(kind.precision),
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    if pa.types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    return _SIMPLE[kind]


def _nullable(schema: Any) -> Any:
    return schema if schema == "null" else [schema, "null"]


def _bytes_for(precision: int) -> int:
    return next(size for size in range(1, 17) if 10**precision - 1 < 1 << (8 * size - 1))


_SIMPLE = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.null(): "null",
}
