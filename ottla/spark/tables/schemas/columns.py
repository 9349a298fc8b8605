"""Columns of tables as Arrow types: the fixed columns, and the types that both table formats have."""

from __future__ import annotations

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)

PARTITION, OFFSET, TIME, KEY, RECORD_HEADERS = "__partition", "__offset", "__timestamp", "__key", "__headers"
#: The columns of every table, before those of the value.
FIXED = (
    pa.field(PARTITION, pa.int32()),
    pa.field(OFFSET, pa.int64()),
    pa.field(TIME, TIMESTAMP),
    pa.field(KEY, pa.binary()),
    pa.field(RECORD_HEADERS, HEADERS),
)
FIXED_NAMES = tuple(field.name for field in FIXED)
#: The column of a value without fields.
VALUE = "value"

#: Marks tombstones on the way to an upsert. No table has this column.
DELETED = "__deleted"

DEAD_LETTERS = pa.schema(
    [*FIXED, pa.field(VALUE, pa.binary()), pa.field("error", pa.string()), pa.field("reason", pa.string())]
)


def lake_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type of a column, or None for types without values, such as a struct without fields."""
    if pa.types.is_null(kind):
        return None
    if pa.types.is_struct(kind):
        fields = [pa.field(each.name, inner) for each in kind if (inner := lake_type(each.type)) is not None]
        return pa.struct(fields) if fields else None
    if pa.types.is_map(kind):
        item = lake_type(kind.item_type)
        return None if item is None else pa.map_(lake_type(kind.key_type), item)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = lake_type(kind.value_type)
        return None if element is None else pa.list_(pa.field("element", element))
    return _simple(kind)


def _simple(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    if kind in (pa.int8(), pa.int16()):
        return pa.int32()
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    return kind


def lake_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema without the layouts and metadata that differ between libraries."""
    return pa.schema([pa.field(each.name, lake_type(each.type)) for each in schema])


def sql_name(kind: pa.DataType) -> str:
    """Return the type in the words of SQL, for messages."""
    names = {
        pa.int32(): "int", pa.int64(): "bigint", pa.float32(): "float", pa.float64(): "double",
        pa.string(): "string", pa.binary(): "binary", pa.bool_(): "boolean", pa.date32(): "date",
    }  # fmt: skip
    if pa.types.is_struct(kind):
        return "struct"
    if pa.types.is_map(kind):
        return "map"
    if pa.types.is_list(kind):
        return "array"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    return names.get(kind) or str(kind).replace("decimal128", "decimal")
