"""Checks whether records fit into a table, and determines the columns to add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ottla.connect.connectors.tables.changes import Change
from ottla.connect.connectors.values.arrow import arrow_schema, arrow_table
from ottla.connect.errors import ConnectError, DataError

_WIDER = {
    pa.int8(): 1,
    pa.int16(): 2,
    pa.int32(): 3,
    pa.int64(): 4,
}


class SchemaCannotEvolve(ConnectError):
    """Names the table and the column, and gives advice."""


def rows_table(changes: Sequence[Change], *, small_integers: bool) -> Any:
    """Build a table from the rows of all changes. `small_integers` means that the lake has 8 and 16 bit integers."""
    with_rows = [change for change in changes if change.row is not None]
    schemas = [
        arrow_schema(each) for each in dict.fromkeys(c.schema for c in with_rows if c.schema is not None)
    ]
    without = [change.row for change in with_rows if change.schema is None]
    if without:
        schemas.append(arrow_table(without).schema)
    try:
        merged = pa.unify_schemas(schemas, promote_options="permissive") if schemas else pa.schema([])
    except pa.ArrowException as error:
        raise DataError(f"Records of one batch have columns of different types: {error}.") from None
    fields = [
        pa.field(field.name, _lake_type(field.type, small_integers))
        for field in merged
        # A column with only nulls has no type yet.
        if not pa.types.is_null(field.type)
    ]
    return (
        arrow_table([change.row for change in with_rows], merged)
        .select([f.name for f in fields])
        .cast(pa.schema(fields))
    )


def _lake_type(type: Any, small_integers: bool) -> Any:
    if pa.types.is_timestamp(type):
        return pa.timestamp("us", tz=type.tz)
    if pa.types.is_time(type):
        return pa.string() if small_integers else pa.time64("us")
    if not small_integers and type in (pa.int8(), pa.int16()):
        return pa.int32()
    if pa.types.is_list(type):
        return pa.list_(pa.field("element", _lake_type(type.value_type, small_integers)))
    if pa.types.is_struct(type):
        return pa.struct([pa.field(each.name, _lake_type(each.type, small_integers)) for each in type])
    if pa.types.is_map(type):
        return pa.map_(_lake_type(type.key_type, small_integers), _lake_type(type.item_type, small_integers))
    return type


def new_columns(table: str, existing: Any, incoming: Any, *, evolve: bool) -> list[Any]:
    """Return the fields to add to the table. Raises SchemaCannotEvolve."""
    found = []
    for field in incoming:
        at = existing.get_field_index(field.name)
        if at < 0:
            if not evolve:
                raise SchemaCannotEvolve(
                    f"The table {table} has no column {field.name!r}, and may not get one: "
                    "add it, or let the connector evolve the schema."
                )
            found.append(field)
        elif not fits(field.type, existing.field(at).type):
            raise SchemaCannotEvolve(
                f"The column {field.name!r} of the table {table} is {existing.field(at).type}, but records have "
                f"{field.type}. Send them to another table, or cast the field in a transform."
            )
    return found


def fits(type: Any, column: Any) -> bool:
    """Return True if the column can store values of this type unchanged."""
    if _normal(type) == _normal(column):
        return True
    if type in _WIDER and column in _WIDER:
        return _WIDER[type] <= _WIDER[column]
    if pa.types.is_floating(column):
        return bool(pa.types.is_floating(type) and type.bit_width <= column.bit_width)
    if pa.types.is_decimal(type) and pa.types.is_decimal(column):
        return bool(
            type.scale <= column.scale and type.precision - type.scale <= column.precision - column.scale
        )
    if pa.types.is_struct(type) and pa.types.is_struct(column):
        inner = {each.name: each.type for each in column}
        return all(each.name in inner and fits(each.type, inner[each.name]) for each in type)
    if _is_list(type) and _is_list(column):
        return fits(type.value_type, column.value_type)
    if pa.types.is_map(type) and pa.types.is_map(column):
        return fits(type.key_type, column.key_type) and fits(type.item_type, column.item_type)
    return False


def _is_list(type: Any) -> bool:
    return bool(pa.types.is_list(type) or pa.types.is_large_list(type))


def _normal(type: Any) -> Any:
    """Normalize Arrow layouts, because lakes return other layouts than they received."""
    if pa.types.is_large_string(type) or pa.types.is_string_view(type):
        return pa.string()
    if pa.types.is_large_binary(type) or pa.types.is_binary_view(type) or pa.types.is_fixed_size_binary(type):
        return pa.binary()
    if pa.types.is_timestamp(type):
        return pa.timestamp("us", tz="UTC" if type.tz else None)
    return type


def by_name(columns: Sequence[str], values: Sequence[Sequence[Any]]) -> Mapping[str, list[Any]]:
    return {name: [each[number] for each in values] for number, name in enumerate(columns)}
