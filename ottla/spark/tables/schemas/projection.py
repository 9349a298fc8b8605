"""Decoded values in the columns of a table: fields by name, wider types, and nulls for missing fields."""

from __future__ import annotations

import pyarrow as pa

from ottla.spark.tables.schemas.evolution import Shape


def project(column: pa.Array, shape: Shape, target: pa.DataType) -> pa.Array:
    """Return the values of a shape as a column of the target type."""
    if column.type == target and _keeps_names(shape):
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), target)
    if pa.types.is_struct(target):
        return _struct(column, shape, target)
    if pa.types.is_list(target):
        column = _from_start(column)
        values = project(column.values, shape.children[0], target.value_type)
        return pa.ListArray.from_arrays(column.offsets, values, type=target, mask=_mask(column))
    if pa.types.is_map(target):
        column = _from_start(column)
        keys = project(column.keys, shape.children[0], target.key_type)
        items = project(column.items, shape.children[1], target.item_type)
        return pa.MapArray.from_arrays(column.offsets, keys, items, type=target, mask=_mask(column))
    return column.cast(target)


def _struct(column: pa.StructArray, shape: Shape, target: pa.DataType) -> pa.Array:
    column = _from_start(column)
    children = {child.column: (index, child) for index, child in enumerate(shape.children)}
    arrays = []
    for field in target:
        if field.name not in children:
            arrays.append(pa.nulls(len(column), field.type))
            continue
        index, child = children[field.name]
        arrays.append(project(column.field(index), child, field.type))
    return pa.StructArray.from_arrays(arrays, fields=list(target), mask=_mask(column))


def _keeps_names(shape: Shape) -> bool:
    return all(each.column == each.name and _keeps_names(each) for each in shape.children)


def _from_start(column: pa.Array) -> pa.Array:
    """Return the array without an offset, because Arrow builds nested arrays only from those."""
    return column if column.offset == 0 else column.take(pa.array(range(len(column)), pa.int64()))


def _mask(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None
