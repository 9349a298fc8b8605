"""Predicates of schema resolution about two types, or about a type and a default."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ottla.spark.formats.avro.schema import Node
from ottla.spark.formats.column_tree import Column

#: Factor to microseconds.
_FACTORS = {"millis": 1000, "micros": 1, "nanos": -1000}


def same_name(writer: Node, reader: Node) -> bool:
    names = {reader.short_name, *(alias.rpartition(".")[2] for alias in reader.aliases)}
    return writer.short_name in names


def is_like(writer: Node, reader: Node) -> bool:
    """Return True for the extra conversions of given columns: enum to string, fixed to bytes."""
    if writer.type == "enum":
        return reader.type == "string"
    return writer.type == "fixed" and reader.type == "bytes"


def is_empty(node: Node, above: tuple[Node, ...]) -> bool:
    if node.type == "record":
        return node not in above and all(is_empty(each.node, (*above, node)) for each in node.fields)
    return node.type == "null" or (node.type == "fixed" and node.size == 0)


def factor(writer: Node, reader: Node, column: Column) -> int:
    """Return the factor that converts timestamps to microseconds. The writer's unit has priority."""
    if not pa.types.is_timestamp(column.type):
        return 1
    for node in (writer, reader):
        if "timestamp-" in node.logical:
            return _FACTORS[node.logical.rpartition("-")[2]]
    return 1


def is_value(value: Any, node: Node) -> bool:
    kind = node.type
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in ("int", "long"):
        limit = 1 << (31 if kind == "int" else 63)
        return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    if kind in ("float", "double"):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in ("record", "map"):
        return isinstance(value, dict)
    if kind == "array":
        return isinstance(value, list)
    if kind == "enum":
        return value in node.symbols
    return isinstance(value, str)
