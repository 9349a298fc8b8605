"""Conversion of an arena, filled by a compiled loop, to Arrow columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ottla.records.kernels.compiling import compiled, copy_bytes
from ottla.spark.formats.column_tree import DECIMAL, LIST, NOTHING, STRUCT, TEXT, Arena, Column


@compiled
def _fill_texts(data: Any, constants: Any, spans: Any, ends: Any, target: Any) -> Any:
    """Concatenate texts. A negative start refers to the constants: -1 is their first byte."""
    at = np.int64(0)
    ends[0] = 0
    for row in range(len(ends) - 1):
        start = spans[2 * row]
        size = spans[2 * row + 1]
        if start >= 0:
            copy_bytes(target, np.uint64(at), data, np.uint64(start), np.uint64(size))
        else:
            copy_bytes(target, np.uint64(at), constants, np.uint64(-1 - start), np.uint64(size))
        at += size
        ends[row + 1] = at


class Assembly:
    """`data` holds the bytes of the texts, and `constants` the bytes from the program."""

    def __init__(self, arena: Arena, data: Any, constants: Any) -> None:
        self._places = arena.places
        self._counts = arena.positions
        self._data = data
        self._constants = constants

    def column(self, column: Column) -> pa.Array:
        count = int(self._counts[column.level])
        if column.kind == NOTHING:
            return pa.nulls(count)
        valid = self._valid(column, count)
        if column.kind == STRUCT:
            children = [self.column(child) for child in column.children]
            return pa.StructArray.from_buffers(column.type, count, [valid], children=children)
        slots = self._slots(column, count)
        if column.kind == LIST:
            return self._list(column, slots, valid)
        if column.kind == TEXT:
            return self._texts(column.type, slots, valid)
        if column.kind == DECIMAL:
            return pa.Array.from_buffers(column.type, count, [valid, pa.py_buffer(slots)])
        return _numbers(column.type, slots, valid)

    def _slots(self, column: Column, count: int) -> Any:
        base = int(self._places.slot_base[column.index])
        return self._places.slots[base : base + count * int(self._places.widths[column.index])]

    def _valid(self, column: Column, count: int) -> pa.Buffer | None:
        base = int(self._places.valid_base[column.index])
        valid = self._places.valid[base : base + count]
        return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))

    def _list(self, column: Column, counts: Any, valid: pa.Buffer | None) -> pa.Array:
        ends = np.zeros(len(counts) + 1, np.int32)
        np.cumsum(counts, out=ends[1:])
        children = [self.column(child) for child in column.children]
        if pa.types.is_map(column.type):
            pairs = pa.StructArray.from_arrays(
                children, fields=[column.type.key_field, column.type.item_field]
            )
        else:
            [pairs] = children
        return pa.Array.from_buffers(column.type, len(counts), [valid, pa.py_buffer(ends)], children=[pairs])

    def _texts(self, kind: pa.DataType, spans: Any, valid: pa.Buffer | None) -> pa.Array:
        return _filled(kind, self._data, self._constants, spans, valid)


def gathered(data: Any, starts: Any, sizes: Any, valid: pa.Buffer | None) -> pa.BinaryArray:
    spans = np.stack([starts, sizes], axis=1).reshape(-1)
    return _filled(pa.binary(), data, data, spans, valid)


def _filled(kind: pa.DataType, data: Any, constants: Any, spans: Any, valid: pa.Buffer | None) -> pa.Array:
    count = len(spans) // 2
    ends = np.empty(count + 1, np.int32)
    size = int(spans[1::2].sum())
    if size >= 1 << 31:
        raise OverflowError("more than 2 GB of text in one batch")
    buffer = pa.allocate_buffer(size)
    _fill_texts(data, constants, spans, ends, np.frombuffer(buffer, np.uint8))
    return pa.Array.from_buffers(kind, count, [valid, pa.py_buffer(ends), buffer])


def _numbers(kind: pa.DataType, slots: Any, valid: pa.Buffer | None) -> pa.Array:
    if pa.types.is_boolean(kind):
        data = np.packbits(slots.astype(np.uint8), bitorder="little")
    elif kind.bit_width == 64:
        data = slots
    else:
        data = slots.astype(f"int{kind.bit_width}")
    return pa.Array.from_buffers(kind, len(slots), [valid, pa.py_buffer(data)])
