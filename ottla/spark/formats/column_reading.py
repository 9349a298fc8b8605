"""Arrow columns as input for the compiled encoding loops: the tree of `column_tree`, filled.

Here a list has two slots, the start and the number of its elements, so that lists of nulls can be skipped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.records.kernels import input_columns
from ottla.spark.formats import column_tree as tree
from ottla.spark.formats.column_tree import DECIMAL, LIST, NOTHING, STRUCT, TEXT, Column


class Filled(NamedTuple):
    """Slot and validity offsets by column, and the bytes of all texts."""

    slots: Any
    valid: Any
    slot_base: Any
    valid_base: Any
    widths: Any
    level_of: Any
    data: Any


def column_of(kind: pa.DataType) -> Column:
    if pa.types.is_struct(kind):
        return tree.struct([each.name for each in kind], [column_of(each.type) for each in kind])
    if pa.types.is_map(kind):
        return tree.mapping(column_of(kind.key_type), column_of(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return tree.array(column_of(kind.value_type))
    if pa.types.is_decimal(kind):
        return tree.decimal(kind.precision, kind.scale)
    if pa.types.is_null(kind):
        return tree.nothing()
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
        return tree.text(kind)
    return tree.number(kind)


class Filler:
    """Fills the slots of a laid-out tree with one batch."""

    def __init__(self, layout: tree.Layout) -> None:
        self._layout = layout
        self._slots: list[Any] = [_NONE] * len(layout.columns)
        self._valid: list[Any] = [_NONE] * len(layout.columns)
        self._data: list[Any] = []
        self._size = 0

    def fill(self, array: pa.Array) -> Filled:
        self._data, self._size = [], 0
        self._column(self._layout.root, array)
        return Filled(
            np.concatenate([*self._slots, np.zeros(2, np.int64)]),
            np.concatenate([*self._valid, np.zeros(1, np.uint8)]),
            _starts(self._slots),
            _starts(self._valid),
            np.array([2 if each.kind in _TWO else 1 for each in self._layout.columns], np.int64),
            self._layout.level_of,
            np.concatenate([*self._data, np.zeros(1, np.uint8)]),
        )

    def _column(self, column: Column, array: pa.Array) -> None:
        self._valid[column.index] = _valid(array)
        if column.kind == STRUCT:
            for index, child in enumerate(column.children):
                self._column(child, array.field(index))
        elif column.kind == LIST:
            self._list(column, array)
        elif column.kind == TEXT:
            self._slots[column.index] = self._texts(array)
        elif column.kind == DECIMAL:
            self._slots[column.index] = _words(array, 2)
        elif column.kind == NOTHING:
            self._valid[column.index] = np.zeros(len(array), np.uint8)
        else:
            self._slots[column.index] = _numbers(array)

    def _list(self, column: Column, array: pa.Array) -> None:
        if pa.types.is_map(array.type):
            pairs = pa.struct([array.type.key_field, array.type.item_field])
            array = array.cast(pa.list_(pairs)) if len(array) else pa.array([], pa.list_(pairs))
        counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        starts = np.zeros(len(counts), np.int64)
        np.cumsum(counts[:-1], out=starts[1:])
        self._slots[column.index] = np.stack([starts, counts], axis=1).reshape(-1)
        elements = array.flatten()
        if len(column.children) == 2:
            for index, child in enumerate(column.children):
                self._column(child, elements.field(index))
        else:
            self._column(column.children[0], elements)

    def _texts(self, array: pa.Array) -> Any:
        texts = input_columns.strings(array)
        first, last = (int(texts.ends[0]), int(texts.ends[-1])) if len(texts.ends) else (0, 0)
        self._data.append(texts.data[first:last])
        starts = texts.ends[:-1].astype(np.int64)
        spans = np.stack([starts - first + self._size, texts.ends[1:] - starts], axis=1).reshape(-1)
        self._size += last - first
        return spans


_TWO = (TEXT, DECIMAL, LIST)
_NONE = np.zeros(0, np.int64)


def _starts(parts: list[Any]) -> Any:
    ends = np.cumsum([len(each) for each in parts], dtype=np.int64)
    return ends - np.array([len(each) for each in parts], np.int64)


def _valid(array: pa.Array) -> Any:
    if not array.null_count:
        return np.ones(len(array), np.uint8)
    return array.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)


def _words(array: pa.Array, width: int) -> Any:
    """Return the 64-bit words of a column, including nulls."""
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(len(array) * width, np.int64)
    return np.frombuffer(data, np.int64)[array.offset * width : (array.offset + len(array)) * width]


def _numbers(array: pa.Array) -> Any:
    kind = array.type
    if pa.types.is_boolean(kind):
        return pc.fill_null(array, False).to_numpy(zero_copy_only=False).astype(np.int64)
    if kind.bit_width == 64:
        return _words(array, 1)
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(len(array), np.int64)
    numbers = np.frombuffer(data, f"int{kind.bit_width}")[array.offset : array.offset + len(array)]
    return numbers.astype(np.int64)
