"""Decoder from Avro records with any writer schemas to one column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ottla.records.kernels import input_columns
from ottla.spark.formats.avro.columns import columns_of
from ottla.spark.formats.avro.compiled_decode import decode_rows
from ottla.spark.formats.avro.program import Programs
from ottla.spark.formats.avro.schema import Node
from ottla.spark.formats.column_assembly import Assembly
from ottla.spark.formats.column_tree import Arena, Layout
from ottla.spark.formats.json_decoder import Decoded


class AvroDecoder:
    """Writers are added as they are encountered. Each gets a number that identifies the schema of a record."""

    def __init__(self, reader: Node, *, by_columns: bool = False) -> None:
        self._layout = Layout(columns_of(reader))
        self._programs = Programs(reader, self._layout, by_columns=by_columns)

    @property
    def type(self) -> pa.DataType:
        return self._layout.root.type

    def add(self, writer: Node) -> int:
        """Return the number of a writer. Raises Unresolvable if the columns cannot hold its values."""
        return self._programs.add(writer)

    def decode(self, values: pa.BinaryArray, writers: Any, skipped: Any) -> Decoded:
        """Decode rows. `writers` holds each row's writer (negative for null), `skipped` the length of the prefix."""
        texts = input_columns.strings(values)
        rows = len(values)
        starts = texts.ends[:-1].astype(np.int64) + skipped
        ends = texts.ends[1:].astype(np.int64)
        arena = Arena(self._layout, rows)
        tables = self._programs.tables
        wrong = np.zeros((rows, 2), np.int64)
        row = 0
        while row < rows:
            row, level, needed = decode_rows(
                texts.data, starts, ends, writers, row, tables, arena.places, arena.positions, wrong
            )
            if row < rows:
                arena.grow(level, needed)
        column = Assembly(arena, texts.data, tables.constants).column(self._layout.root)
        [bad] = np.nonzero(wrong[:, 0])
        return Decoded(column, {int(each): self._programs.reason(*map(int, wrong[each])) for each in bad})
