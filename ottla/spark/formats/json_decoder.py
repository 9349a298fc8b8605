"""Decoder from JSON texts to a column of a Spark type.

Three readers follow each other, each slower and given the rows that the previous one left: a compiled loop,
Arrow's block reader, and a row parser that works like Spark's `from_json`. The first two leave every row that
`from_json` might read differently. A block that Arrow refuses is first cut into smaller blocks.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.json

from ottla.spark.formats import json_times
from ottla.spark.formats.json_lines import lines
from ottla.spark.formats.json_rows import BadJson, row_parser
from ottla.spark.formats.json_types import arrow_type, block_type

PlainReader: Any
try:
    from ottla.spark.formats.json_plain import PlainReader
except ModuleNotFoundError as error:
    if error.name != "numba":
        raise
    PlainReader = None

#: Above this share of odd rows, the plain reader is not worthwhile.
_MOST_ODD = 0.5
#: Up to this many rows, parsing rows is cheaper than parsing a block.
_FEW = 8
#: Refused blocks up to this size are read row by row.
_SMALL = 64
_PARTS = 16


class Decoded(NamedTuple):
    """`column` is null for null and bad texts; `reasons` has the error of each bad row."""

    column: pa.Array
    reasons: dict[int, str]


class JsonDecoder:
    def __init__(self, kind: Any, time_zone: str, *, lax: bool = False) -> None:
        self._kind = kind
        self._time_zone = time_zone
        self._type = arrow_type(kind)
        self._parse = row_parser(kind, json_times.time_zone(time_zone), lax=lax)
        block = block_type(kind) if kind.typeName() == "struct" else None
        self._options = None
        if block is not None and block.num_fields:
            self._options = pa.json.ParseOptions(
                explicit_schema=pa.schema(list(block)), unexpected_field_behavior="ignore"
            )

        #: Names that Arrow's reader would miss, because only their case differs from a field.
        self._odd_name = _odd_name(kind) if lax and self._options is not None else None
        self._plain: Any = None
        if PlainReader is not None and block is not None and PlainReader.can_read(kind):
            self._plain = PlainReader(kind, [field.type for field in block], folds=lax)

    def decode(self, texts: pa.BinaryArray) -> Decoded:
        if self._plain is not None and len(texts):
            decoded = self._decode_plain(texts)
            if decoded is not None:
                return decoded
        return self._decode_others(texts)

    def _decode_plain(self, texts: pa.BinaryArray) -> Decoded | None:
        """Decode with the plain reader, or return None if too few rows are plain."""
        try:
            _check_utf8(texts)
            columns, odd, count = self._plain.read(texts)
            if count > _MOST_ODD * len(texts):
                self._plain = None
                return None
            column = self._struct(self._kind, self._type, columns, texts)
        except (pa.ArrowInvalid, ValueError):
            return None
        if not count:
            return Decoded(column, {})
        [rows] = np.nonzero(odd)
        others = self._decode_others(texts.take(pa.array(rows)))
        places = np.arange(len(texts))
        places[rows] = len(texts) + np.arange(count)
        column = pa.concat_arrays([column, others.column]).take(pa.array(places))
        return Decoded(column, {int(rows[row]): reason for row, reason in others.reasons.items()})

    def _decode_others(self, texts: pa.BinaryArray) -> Decoded:
        pieces: list[pa.Array] = []
        reasons: dict[int, str] = {}
        self._decode(texts, 0, pieces, reasons)
        column = pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)
        return Decoded(column, reasons)

    def _decode(
        self, texts: pa.BinaryArray, first: int, pieces: list[pa.Array], reasons: dict[int, str]
    ) -> None:
        if len(texts) > _FEW and self._options is not None:
            block = self._block(texts)
            if block is not None:
                pieces.append(block)
                return
            if len(texts) > _SMALL:
                step = -(-len(texts) // _PARTS)
                for start in range(0, len(texts), step):
                    self._decode(texts.slice(start, step), first + start, pieces, reasons)
                return
        pieces.append(self._rows(texts, first, reasons))

    def _rows(self, texts: pa.BinaryArray, first: int, reasons: dict[int, str]) -> pa.Array:
        values: list[Any] = []
        for row, text in enumerate(texts.to_pylist(), first):
            value = None
            if text is not None:
                try:
                    value = self._parse(text)
                except BadJson as error:
                    reasons[row] = str(error)
            values.append(value)
        return pa.array(values, self._type)

    def _block(self, texts: pa.BinaryArray) -> pa.Array | None:
        """Read all rows at once, or return None if any row needs the row parser."""
        text = lines(texts)
        if text is None or (self._odd_name is not None and self._odd_name(text)):
            return None
        try:
            _check_utf8(texts)
            table = pa.json.read_json(
                pa.BufferReader(text),
                read_options=pa.json.ReadOptions(use_threads=False, block_size=text.size + 1),
                parse_options=self._options,
            )
            if table.num_rows != len(texts):
                return None
            columns = [column.combine_chunks() for column in table.columns]
            return self._struct(self._kind, self._type, columns, texts)
        except (pa.ArrowInvalid, ValueError):
            return None

    # From Arrow's types to the requested types

    def _struct(self, kind: Any, wanted: pa.DataType, children: list[pa.Array], rows: pa.Array) -> pa.Array:
        arrays = [
            self._finished(field.dataType, each.type, child)
            for field, each, child in zip(kind.fields, wanted, children, strict=True)
        ]
        mask = rows.is_null() if rows.null_count else None
        return pa.StructArray.from_arrays(arrays, fields=list(wanted), mask=mask)

    def _finished(self, kind: Any, wanted: pa.DataType, column: pa.Array) -> pa.Array:
        if column.type == wanted:
            return column
        name = kind.typeName()
        if name == "struct":
            children = [column.field(index) for index in range(column.type.num_fields)]
            return self._struct(kind, wanted, children, column)
        if name == "array":
            values = self._finished(kind.elementType, wanted.value_type, column.values)
            mask = column.is_null() if column.null_count else None
            return pa.ListArray.from_arrays(column.offsets, values, type=wanted, mask=mask)
        if name == "date":
            return json_times.date_column(column)
        if name == "timestamp":
            return json_times.timestamp_column(column, self._time_zone)
        if name == "timestamp_ntz":
            return json_times.local_timestamp_column(column)
        decoded = [
            None if text is None else base64.b64decode(text, validate=True) for text in column.to_pylist()
        ]
        return pa.array(decoded, wanted)


def _odd_name(kind: Any) -> Callable[[pa.Buffer], Any]:
    """Return a search for names that match a field only in upper case."""
    names = sorted(_names(kind))
    any_case = b"|".join(re.escape(name.encode()) for name in names if name == name.upper())
    spelled = b"|".join(re.escape(name.encode()) for name in names)
    return re.compile(rb'"(?!(?:' + spelled + rb')")(?i:' + any_case + rb')"[ \t\r\n]*:').search


def _names(kind: Any) -> set[str]:
    name = kind.typeName()
    if name == "struct":
        return {field.name for field in kind.fields}.union(*(_names(field.dataType) for field in kind.fields))
    if name == "array":
        return _names(kind.elementType)
    return _names(kind.valueType) if name == "map" else set()


def _check_utf8(texts: pa.BinaryArray) -> None:
    """Validate UTF-8, because Arrow's JSON reader does not."""
    strings = pa.Array.from_buffers(pa.string(), len(texts), texts.buffers(), offset=texts.offset)
    strings.validate(full=True)
