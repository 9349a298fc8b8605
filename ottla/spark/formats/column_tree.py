"""Columns of binary formats as a tree, laid out for a compiled loop.

Every column belongs to a level. Level 0 has one place per record, and the elements of each list or map form a level of
their own. All columns of a level have equal length, so one position per level addresses the next value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.spark.formats.json_types import TIMESTAMP, TIMESTAMP_NTZ

#: Contents of a place: one number, start and length of a text, 128 bits, or the number of list elements. STRUCT and
#: NOTHING (a column that is always null) only have validity.
NUMBER, TEXT, DECIMAL, STRUCT, LIST, NOTHING = range(6)
_SQL_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMP_NTZ: "TIMESTAMP_NTZ",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.null(): "VOID",
    pa.duration("us"): "INTERVAL DAY TO SECOND",
}

_WIDTHS = {NUMBER: 1, TEXT: 2, DECIMAL: 2, STRUCT: 0, LIST: 1, NOTHING: 0}


@dataclass
class Column:
    """`inner` is the level of a list's elements. A map has two columns there, for keys and values."""

    kind: int
    type: pa.DataType
    children: list[Column] = field(default_factory=list)
    index: int = -1
    level: int = -1
    inner: int = -1

    @property
    def together(self) -> list[Column]:
        """Return the column and all descendants that always have a value or a null along with it."""
        found = [self]
        if self.kind == STRUCT:
            for child in self.children:
                found += child.together
        return found


def number(kind: pa.DataType) -> Column:
    return Column(NUMBER, kind)


def text(kind: pa.DataType) -> Column:
    return Column(TEXT, kind)


def decimal(precision: int, scale: int) -> Column:
    return Column(DECIMAL, pa.decimal128(precision, scale))


def nothing() -> Column:
    return Column(NOTHING, pa.null())


def struct(names: list[str], children: list[Column]) -> Column:
    fields = [pa.field(name, child.type) for name, child in zip(names, children, strict=True)]
    return Column(STRUCT, pa.struct(fields), children)


def array(element: Column) -> Column:
    return Column(LIST, pa.list_(pa.field("element", element.type)), [element])


def mapping(key: Column, value: Column) -> Column:
    return Column(LIST, pa.map_(key.type, value.type), [key, value])


def sql_type(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        fields = ", ".join(f"`{each.name.replace('`', '``')}`: {sql_type(each.type)}" for each in kind)
        return f"STRUCT<{fields}>"
    if pa.types.is_map(kind):
        return f"MAP<{sql_type(kind.key_type)}, {sql_type(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{sql_type(kind.value_type)}>"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return _SQL_TYPES[kind]


class Layout:
    """Assigns an index and a level to each column of a tree."""

    def __init__(self, root: Column) -> None:
        self.root = root
        self.columns: list[Column] = []
        self.levels = 1
        self._place(root, 0)
        self.widths = np.array([_WIDTHS[each.kind] for each in self.columns], np.int64)
        self.level_of = np.array([each.level for each in self.columns], np.int64)
        self.top = np.array([each.index for each in root.together], np.int64)

    def _place(self, column: Column, level: int) -> None:
        column.index, column.level = len(self.columns), level
        self.columns.append(column)
        if column.kind == LIST:
            column.inner = level = self.levels
            self.levels += 1
        for child in column.children:
            self._place(child, level)


class Places(NamedTuple):
    """Slot and validity offsets of columns for the compiled loops."""

    slots: Any
    valid: Any
    slot_base: Any
    valid_base: Any
    widths: Any
    level_of: Any
    top: Any
    capacities: Any


class Arena:
    """Memory of one batch. Everything is valid until a null is written."""

    def __init__(self, layout: Layout, rows: int) -> None:
        self._layout = layout
        capacities = np.full(layout.levels, max(rows, 16), np.int64)
        capacities[0] = rows
        self.positions = np.zeros(layout.levels, np.int64)
        self.places = self._allocate(capacities)

    def grow(self, level: int, needed: int) -> None:
        old = self.places
        capacities = old.capacities.copy()
        capacities[level] = max(needed, capacities[level] * 2)
        self.places = self._allocate(capacities)
        for column in self._layout.columns:
            count, width = int(self.positions[column.level]), int(old.widths[column.index])
            for source, target, bases, size in (
                (old.slots, self.places.slots, "slot_base", count * width),
                (old.valid, self.places.valid, "valid_base", count),
            ):
                start, to = int(getattr(old, bases)[column.index]), getattr(self.places, bases)[column.index]
                target[to : to + size] = source[start : start + size]

    def _allocate(self, capacities: Any) -> Places:
        layout = self._layout
        rooms = capacities[layout.level_of]
        slot_ends = np.cumsum(rooms * layout.widths)
        valid_ends = np.cumsum(rooms)
        return Places(
            np.empty(int(slot_ends[-1]) + 1, np.int64),
            np.ones(int(valid_ends[-1]) + 1, np.uint8),
            slot_ends - rooms * layout.widths,
            valid_ends - rooms,
            layout.widths,
            layout.level_of,
            layout.top,
            capacities,
        )
