"""Conversion between Arrow columns and tuples of Python values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ottla.sql.stateful.records import Values


def to_rows(columns: Sequence[pa.Array]) -> list[Values]:
    return list(zip(*map(to_values, columns), strict=True))


def to_values(column: pa.Array) -> list[Any]:
    kind, count = column.type, len(column)
    if column.null_count == count:
        return [None] * count
    if pa.types.is_struct(kind):
        fields = [to_values(field) for field in column.flatten()]
        rows: list[Any] = list(zip(*fields, strict=True)) if fields else [()] * count
        if column.null_count:
            rows = [
                row if there else None for row, there in zip(rows, column.is_valid().to_pylist(), strict=True)
            ]
        return rows
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.cast(pa.int32())
    values: list[Any] = column.to_pylist()
    return values


def from_values(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if not pa.types.is_struct(kind):
        return pa.array(values, kind)
    # Aggregates represent structs as dictionaries.
    values = [tuple(row.values()) if isinstance(row, dict) else row for row in values]
    fields = [
        from_values([None if row is None else row[i] for row in values], kind.field(i).type)
        for i in range(kind.num_fields)
    ]
    missing = pa.array([row is None for row in values], pa.bool_())
    if not fields:
        return pa.array([None if row is None else {} for row in values], kind)
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=missing)
