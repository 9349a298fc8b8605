"""Decoder for Protobuf with schemas in a registry."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.client.schema_registry import Schema
from ottla.records.kernels import input_columns
from ottla.spark.formats.column_assembly import Assembly
from ottla.spark.formats.column_reading import column_of
from ottla.spark.formats.column_tree import Arena, Layout
from ottla.spark.formats.json_decoder import Decoded
from ottla.spark.formats.protobuf import operations as op
from ottla.spark.formats.protobuf.compiled_decode import decode_rows
from ottla.spark.formats.protobuf.messages import MessageTables, ProtobufError, Types, columns_of
from ottla.spark.formats.registered.decoder import Unreadable
from ottla.spark.formats.registered.schema_source import SchemaSource, referenced
from ottla.spark.options import OptionError

_FIRST = (0,)


class ProtobufFormat:
    """Fields are matched by number with the reader schema, or by name if columns are given."""

    def __init__(self, source: SchemaSource, reader: Schema, columns: str | None, part: str) -> None:
        """Build the decoder. `columns` are given columns as Spark JSON, or None if the schema determines them."""
        self._framed = source.registry is not None
        self._message = source.message
        self._reader: Types | None = None
        self._writers: list[Types] = []
        #: By writer and message indexes: the number of the message, or the error.
        self._known: dict[tuple[int, tuple[int, ...]], int | str] = {}
        if columns is not None:
            from pyspark.sql.types import _parse_datatype_json_value

            from ottla.spark.formats.json_types import arrow_type

            root = column_of(arrow_type(_parse_datatype_json_value(json.loads(columns))))
        else:
            try:
                self._reader = Types(reader, referenced(source, reader))
                name = source.message
                self._name = self._reader.by_indexes(_FIRST) if name is None else self._reader.by_name(name)
                root = columns_of(self._reader, self._name)
            except ProtobufError as error:
                raise OptionError(f"The schema of Protobuf cannot be used: {error}.") from None
        self._layout = Layout(root)
        self._tables = MessageTables(self._layout)
        self._number = -1 if self._reader is None else self._tables.add(self._reader, self._name)

    @property
    def type(self) -> pa.DataType:
        return self._layout.root.type

    def add(self, schema: Schema, referenced: dict[str, Schema], rest: bytes) -> int:
        try:
            self._writers.append(Types(schema, referenced))
        except ProtobufError as error:
            raise Unreadable(str(error)) from None
        number = len(self._writers) - 1
        if rest:
            # Indexes in a header apply to all records with that header.
            indexes, _ = _read_indexes(np.frombuffer(rest, np.uint8), 0, len(rest))
            self._known[number, ()] = self._message_of(number, indexes or _FIRST)
        return number

    def decode(self, values: pa.BinaryArray, writers: Any, skipped: Any) -> Decoded:
        """Decode rows. Message indexes follow the schema id, unless a header contains them."""
        texts = input_columns.strings(values)
        rows = len(values)
        starts = texts.ends[:-1].astype(np.int64) + skipped
        ends = texts.ends[1:].astype(np.int64)
        messages = np.full(rows, -1, np.int64)
        reasons: dict[int, str] = {}
        for writer in np.unique(writers[writers >= 0]).tolist():
            [own] = np.nonzero(writers == writer)
            if self._framed and (writer, ()) not in self._known:
                self._unframe(writer, own, texts.data, starts, ends, messages, reasons)
            else:
                self._assign(self._message_number(writer, ()), own, messages, reasons)
        arena = Arena(self._layout, rows)
        tables = self._tables.tables
        wrong = np.zeros((rows, 2), np.int64)
        row = 0
        while row < rows:
            row, level, needed = decode_rows(
                texts.data, starts, ends, messages, row, tables, arena.places, arena.positions, wrong
            )
            if row < rows:
                arena.grow(level, needed)
        constants = np.frombuffer(bytes(self._tables.constants) + b"\0", np.uint8)
        column = Assembly(arena, texts.data, constants).column(self._layout.root)
        [bad] = np.nonzero(wrong[:, 0])
        for each in bad:
            where = self._tables.name(int(wrong[each, 1]))
            reasons[int(each)] = op.REASONS[int(wrong[each, 0])].format(where=where)
        return Decoded(column, reasons)

    def _unframe(
        self,
        writer: int,
        rows: Any,
        data: Any,
        starts: Any,
        ends: Any,
        messages: Any,
        reasons: dict[int, str],
    ) -> None:
        """Remove the message indexes. Nearly all records have the first message of a file."""
        room = ends[rows] - starts[rows]
        first = np.full(len(rows), -1, np.int64)
        first[room > 0] = data[starts[rows[room > 0]]]
        short = rows[first == 0]
        starts[short] += 1
        self._assign(self._message_number(writer, _FIRST), short, messages, reasons)
        one = rows[(first == 2) & (room > 1)]
        index = data[starts[one] + 1]
        one, index = one[(index & 0x81) == 0], index[(index & 0x81) == 0]
        starts[one] += 2
        for each in np.unique(index).tolist():
            self._assign(self._message_number(writer, (each >> 1,)), one[index == each], messages, reasons)
        for row in np.setdiff1d(rows, np.concatenate([short, one])).tolist():
            indexes, starts[row] = _read_indexes(data, int(starts[row]), int(ends[row]))
            found = (
                "it does not say which message it is"
                if indexes is None
                else self._message_number(writer, indexes)
            )
            self._assign(found, np.array([row]), messages, reasons)

    def _assign(self, found: int | str, rows: Any, messages: Any, reasons: dict[int, str]) -> None:
        if isinstance(found, int):
            messages[rows] = found
        else:
            reasons |= dict.fromkeys(rows.tolist(), found)

    def _message_number(self, writer: int, indexes: tuple[int, ...]) -> int | str:
        key = (writer, indexes)
        if key not in self._known:
            self._known[key] = self._message_of(writer, indexes or _FIRST)
        return self._known[key]

    def _message_of(self, writer: int, indexes: tuple[int, ...]) -> int | str:
        types = self._writers[writer]
        try:
            name = types.by_indexes(indexes)
            if self._reader is None:
                return self._tables.add(types, name)
        except ProtobufError as error:
            return str(error)
        if not self._framed:
            return self._number
        if name != self._name:
            return f"it is a message {name}, not {self._name}"
        return self._number


def _read_indexes(data: Any, at: int, end: int) -> tuple[tuple[int, ...] | None, int]:
    """Read the indexes of a message in its file as zigzag numbers. Return them and the position after them.

    A single 0 means the first message.
    """
    count, at = _read_number(data, at, end)
    if count == 0:
        return _FIRST, at
    if not 0 < count <= 100:
        return None, at
    found = []
    for _ in range(count):
        index, at = _read_number(data, at, end)
        if index < 0:
            return None, at
        found.append(index)
    return tuple(found), at


def _read_number(data: Any, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 35:
        byte = int(data[at])
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    return -1, at
