"""Programs that decode records of one schema into the columns of another, by Avro's schema resolution.

All programs of a reader write to the same columns. They share one table, so that a batch may mix records of many
writers.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from ottla.spark.formats.avro import operations as op
from ottla.spark.formats.avro.columns import members_of, wide_number
from ottla.spark.formats.avro.matching import factor, is_empty, is_like, is_value, same_name
from ottla.spark.formats.avro.schema import Field, Node
from ottla.spark.formats.column_tree import LIST, NOTHING, STRUCT, Column, Layout

#: Powers of ten by precision, as two 64-bit words each.
_LIMITS = np.array([((10**digits) & (2**64 - 1), 10**digits >> 64) for digits in range(39)], np.uint64)

_PROMOTIONS = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "double": ("double",),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
}
_MOST_INSTRUCTIONS = 1_000_000


class Unresolvable(Exception):
    """The writer schema cannot be resolved to the reader schema."""


class Tables(NamedTuple):
    """Programs in the form of the compiled loop."""

    code: Any
    side: Any
    limits: Any
    constants: Any


class Programs:
    """With `by_columns`, the reader is a set of given columns instead of a schema, and record names do not matter."""

    def __init__(self, reader: Node, layout: Layout, *, by_columns: bool = False) -> None:
        self._reader = reader
        self._layout = layout
        self._by_columns = by_columns
        self._code: list[tuple[int, ...]] = []
        self._side: list[int] = []
        self._constants = bytearray()
        self._wheres: list[str] = []
        self._where = ""
        self._reasons: list[str] = []
        self._skipped: dict[Node, int] = {}
        self._to_skip: list[tuple[Node, int]] = []
        self._tables: Tables | None = None

    def add(self, writer: Node) -> int:
        """Return the start of the program for a writer. Raises Unresolvable if no record of the writer is readable."""
        begin, side, constants = len(self._code), len(self._side), len(self._constants)
        self._where, self._tables = "", None
        self._skipped.clear()
        try:
            self._read(writer, self._reader, self._layout.root, "")
        except Unresolvable:
            del self._code[begin:], self._wheres[begin:], self._side[side:], self._constants[constants:]
            self._to_skip.clear()
            raise
        self._emit(op.END)
        while self._to_skip:
            node, call = self._to_skip.pop()
            self._patch(call, op.AFTER, self._subroutine(node))
        return begin

    @property
    def tables(self) -> Tables:
        if self._tables is None:
            self._tables = Tables(
                np.array(self._code, np.int64).reshape(-1, op.AFTER + 1),
                np.array([*self._side, 0], np.int64),
                _LIMITS,
                np.frombuffer(bytes(self._constants) + b"\0", np.uint8),
            )
        return self._tables

    def reason(self, status: int, pc: int) -> str:
        """Return the error message for a record that stopped at an instruction."""
        if status == op.REFUSED:
            return self._reasons[self._code[pc][op.B]]
        return op.REASONS[status].format(where=self._wheres[pc] or "the value")

    # Instructions

    def _emit(self, code: int, a: int = -1, b: int = 0, c: int = 0, size: int = 0, after: int = 0) -> int:
        """Append an instruction. `a` is a column, or -1 without one."""
        if len(self._code) >= _MOST_INSTRUCTIONS:
            raise Unresolvable("the schema is too large")
        self._code.append((code, a, b, c, size, after))
        self._wheres.append(self._where)
        return len(self._code) - 1

    def _patch(self, at: int, which: int, value: int) -> None:
        row = list(self._code[at])
        row[which] = value
        self._code[at] = tuple(row)

    def _nulls(self, column: Column) -> None:
        columns = [each.index for each in column.together]
        self._emit(op.NULLS, -1, len(columns), len(self._side))
        self._side += columns

    def _constant_text(self, data: bytes) -> tuple[int, int]:
        start = self._constants.find(data) if data else 0
        if start < 0:
            start = len(self._constants)
            self._constants += data
        return -1 - start, len(data)

    # Fields in the reader schema

    def _read(self, writer: Node, reader: Node, column: Column, where: str) -> None:
        self._where = where
        if writer.type == "union":
            self._branches(writer, lambda branch: self._read(branch, reader, column, where), where, must=True)
        elif reader.type == "union":
            self._to_union(writer, reader, column, where)
        elif writer.type == "record" and reader.type == "record":
            self._record(writer, reader, column, where)
        elif writer.type == reader.type == "array":
            self._loop(
                writer,
                column,
                where,
                lambda: self._read(writer.of[0], reader.of[0], column.children[0], f"{where}[]"),
            )
        elif writer.type == reader.type == "map":
            self._loop(writer, column, where, lambda: self._entry(writer, reader, column, where))
        elif writer.type == reader.type == "null":
            if column.kind != NOTHING:
                self._nulls(column)
        else:
            self._simple(writer, reader, column, where)

    def _branches(self, writer: Node, read: Any, where: str, *, must: bool) -> None:
        """Emit code for each branch of a writer's union. A mismatched branch refuses only its own records."""
        table = len(self._side)
        self._side += [0] * len(writer.of)
        self._emit(op.UNION, -1, len(writer.of), table)
        jumps, fitting, reason = [], 0, "the union has no branches"
        for index, branch in enumerate(writer.of):
            start = len(self._code)
            self._side[table + index] = start
            calls = len(self._to_skip)
            try:
                read(branch)
                fitting += 1
            except Unresolvable as error:
                reason = str(error)
                del self._code[start:], self._wheres[start:], self._to_skip[calls:]
                self._where = where
                self._emit(op.REFUSE, -1, len(self._reasons))
                self._reasons.append(reason)
            self._where = where
            jumps.append(self._emit(op.JUMP))
        if must and not fitting:
            raise Unresolvable(reason)
        for jump in jumps:
            self._patch(jump, op.AFTER, len(self._code))

    def _to_union(self, writer: Node, reader: Node, column: Column, where: str) -> None:
        branch = self._match(writer, reader)
        if branch is None:
            raise Unresolvable(
                f"{where or 'the value'} was written as {writer}, which {reader} does not have"
            )
        members = members_of(reader)
        if branch.type == "null":
            if column.kind != NOTHING:
                self._nulls(column)
        elif len(members) == 1:
            self._read(writer, branch, column, where)
        elif (wide := wide_number(members)) is not None:
            self._read(writer, wide, column, where)
        else:
            for member, child in zip(members, column.children, strict=True):
                if member is branch:
                    self._read(writer, branch, child, where)
                else:
                    self._nulls(child)

    def _match(self, writer: Node, reader: Node) -> Node | None:
        """Return the branch of the reader's union for the writer's type: the same type, or a promotion."""
        same = [each for each in reader.of if each.type == writer.type]
        if writer.name and not self._by_columns:
            exact = [each for each in same if each.name == writer.name or writer.name in each.aliases]
            short = [each for each in same if same_name(writer, each)]
            structural = same if writer.type == "record" and len(same) == 1 else []
            same = exact or short or structural
        if same:
            return same[0]
        for each in reader.of:
            if each.type in _PROMOTIONS.get(writer.type, ()) or (self._by_columns and is_like(writer, each)):
                return each
        return None

    def _record(self, writer: Node, reader: Node, column: Column, where: str) -> None:
        wanted = {field.name: index for index, field in enumerate(reader.fields)}
        for index, field in enumerate(reader.fields):
            for alias in field.aliases:
                wanted.setdefault(alias, index)
        filled: set[int] = set()
        for field in writer.fields:
            index = wanted.get(field.name, -1)
            name = f"{where}.{field.name}".removeprefix(".")
            if index < 0 or index in filled:
                self._skip(field.node, name)
            else:
                filled.add(index)
                self._read(field.node, reader.fields[index].node, column.children[index], name)
        for index, field in enumerate(reader.fields):
            if index not in filled:
                self._where = f"{where}.{field.name}".removeprefix(".")
                self._default(field, column.children[index])

    def _loop(self, writer: Node, column: Column | None, where: str, body: Any) -> None:
        """Emit a loop over the blocks of an array or map, into a list column or skipping them."""
        self._where = where
        may_be_empty = writer.type == "array" and is_empty(writer.of[0], ())
        list_column, level = (-1, -1) if column is None else (column.index, column.inner)
        begin = self._emit(op.LOOP, list_column, level, int(may_be_empty))
        body()
        self._where = where
        self._emit(op.NEXT, after=begin)
        self._patch(begin, op.AFTER, len(self._code))

    def _entry(self, writer: Node, reader: Node, column: Column, where: str) -> None:
        self._emit(op.BYTES, column.children[0].index, 1)
        self._read(writer.of[0], reader.of[0], column.children[1], f"{where}{{}}")

    def _simple(self, writer: Node, reader: Node, column: Column, where: str) -> None:
        kind, wanted, at = writer.type, reader.type, column.index
        misfit = Unresolvable(f"{where or 'the value'} was written as {writer}, not {reader}")
        if kind == "enum":
            self._enum(writer, reader, at, misfit)
        elif reader.logical == "decimal":
            self._decimal(writer, reader, at, misfit)
        elif kind == "fixed":
            same = wanted == "fixed" and writer.size == reader.size and same_name(writer, reader)
            if not same and not (self._by_columns and wanted in ("bytes", "string")):
                raise misfit
            self._emit(op.FIXED, at, int(wanted == "string"), size=writer.size)
        elif wanted not in _PROMOTIONS.get(kind, (kind,)) or kind not in _EMITTED:
            raise misfit
        elif kind in ("int", "long"):
            bits = 32 if kind == "int" else 64
            if wanted in ("float", "double"):
                self._emit(op.TO_FLOAT if wanted == "float" else op.TO_DOUBLE, at, bits)
            else:
                self._emit(op.WHOLE, at, bits, factor(writer, reader, column))
        elif kind == "float":
            self._emit(op.FLOAT if wanted == "float" else op.WIDER, at, size=4)
        elif kind in ("string", "bytes"):
            self._emit(op.BYTES, at, int(wanted == "string"))
        elif kind == "boolean":
            self._emit(op.BOOLEAN, at, size=1)
        else:
            self._emit(op.DOUBLE, at, size=8)

    def _enum(self, writer: Node, reader: Node, column: int, misfit: Unresolvable) -> None:
        if reader.type == "enum":
            if not same_name(writer, reader):
                raise misfit
            symbols = [each if each in reader.symbols else reader.default_symbol for each in writer.symbols]
        elif self._by_columns and reader.type == "string":
            symbols = list(writer.symbols)
        else:
            raise misfit
        table = len(self._side)
        for symbol in symbols:
            self._side += (0, 0) if symbol is None else self._constant_text(symbol.encode())
        self._emit(op.ENUM, column, table, len(symbols))

    def _decimal(self, writer: Node, reader: Node, column: int, misfit: Unresolvable) -> None:
        if writer.type not in ("bytes", "fixed") or (
            not self._by_columns and (writer.type != reader.type or writer.size != reader.size)
        ):
            raise misfit
        if writer.logical == "decimal" and writer.scale != reader.scale:
            raise Unresolvable(f"{misfit} with {reader.scale} digits after the point, but {writer.scale}")
        if writer.logical != "decimal" and self._by_columns:
            raise misfit
        if writer.type == "fixed":
            self._emit(op.DECIMAL, column, reader.precision, size=writer.size)
        else:
            self._emit(op.DECIMAL_BYTES, column, reader.precision)

    # Fields missing in the writer schema

    def _default(self, field: Field, column: Column) -> None:
        if not field.has_default:
            raise Unresolvable(f"{self._where} was not written, and it has no default")
        try:
            self._value(field.default, field.node, column)
        except (TypeError, ValueError, KeyError, AttributeError, struct.error):
            raise Unresolvable(f"{self._where} has a default that is not of its type") from None

    def _value(self, value: Any, node: Node, column: Column) -> None:
        if node.type == "union":
            self._value_of_union(value, node, column)
        elif node.type == "null":
            if value is not None:
                raise ValueError(value)
            if column.kind != NOTHING:
                self._nulls(column)
        elif column.kind == STRUCT:
            for field, child in zip(node.fields, column.children, strict=True):
                if field.name not in value and not field.has_default:
                    raise KeyError(field.name)
                self._value(value.get(field.name, field.default), field.node, child)
        elif column.kind == LIST:
            items = list(value.items()) if node.type == "map" else list(value)
            self._emit(op.COUNT, column.index, column.inner, len(items))
            for item in items:
                if node.type == "map":
                    self._emit(op.CONSTANT, column.children[0].index, *self._constant_text(item[0].encode()))
                    item = item[1]
                self._value(item, node.of[0], column.children[-1])
                self._emit(op.ADVANCE, -1, column.inner)
        else:
            self._emit(op.CONSTANT, column.index, *self._slots(value, node, column))

    def _value_of_union(self, value: Any, union: Node, column: Column) -> None:
        members = members_of(union)
        branch = next((each for each in union.of if is_value(value, each)), None)
        if branch is None:
            raise ValueError(value)
        if branch.type == "null" or len(members) == 1:
            self._value(value, branch, column)
        elif (wide := wide_number(members)) is not None:
            self._value(value, wide, column)
        else:
            for member, child in zip(members, column.children, strict=True):
                if member is branch:
                    self._value(value, branch, child)
                else:
                    self._nulls(child)

    def _slots(self, value: Any, node: Node, column: Column) -> tuple[int, ...]:
        if not is_value(value, node):
            raise ValueError(value)
        if node.logical == "decimal":
            number = int.from_bytes(value.encode("latin-1"), "big", signed=True)
            return struct.unpack("<qq", number.to_bytes(16, "little", signed=True))
        if node.type in ("bytes", "fixed"):
            return self._constant_text(value.encode("latin-1"))
        if node.type in ("string", "enum"):
            return self._constant_text(value.encode())
        if node.type == "float":
            return struct.unpack("<i", struct.pack("<f", value))
        if node.type == "double":
            return struct.unpack("<q", struct.pack("<d", value))
        times = factor(node, node, column)
        return (int(value) * times if times > 0 else int(value) // -times,)

    # Fields missing in the reader schema

    def _skip(self, node: Node, where: str) -> None:
        self._where = where
        kind = node.type
        if kind == "union":
            self._branches(node, lambda branch: self._skip(branch, where), where, must=False)
        elif kind == "record":
            # Call instead of inlining, because records may be recursive or repeat each other many times.
            self._to_skip.append((node, self._emit(op.CALL)))
        elif kind == "array":
            self._loop(node, None, where, lambda: self._skip(node.of[0], f"{where}[]"))
        elif kind == "map":
            self._loop(node, None, where, lambda: self._skip_entry(node, where))
        elif kind in ("int", "long", "enum"):
            self._emit(op.SKIP_WHOLE)
        elif kind in ("bytes", "string"):
            self._emit(op.SKIP_BYTES)
        elif kind != "null":
            self._emit(op.SKIP, size={"boolean": 1, "float": 4, "double": 8}.get(kind, node.size))

    def _skip_entry(self, node: Node, where: str) -> None:
        self._emit(op.SKIP_BYTES)
        self._skip(node.of[0], f"{where}{{}}")

    def _subroutine(self, node: Node) -> int:
        if node not in self._skipped:
            self._skipped[node] = len(self._code)
            for field in node.fields:
                self._skip(field.node, f"{node.name}.{field.name}")
            self._emit(op.RETURN)
        return self._skipped[node]


_EMITTED = (*_PROMOTIONS, "boolean")
