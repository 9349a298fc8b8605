"""Mapping between Avro schemas and columns, with the type mapping of spark-avro."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ottla.spark.formats import column_tree as tree
from ottla.spark.formats.avro.schema import Field, Node
from ottla.spark.formats.column_tree import Column
from ottla.spark.formats.json_types import TIMESTAMP, TIMESTAMP_NTZ
from ottla.spark.options import OptionError

_MOST_COLUMNS = 10_000
_MOST_DIGITS = 38

_NUMBERS = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp-millis": TIMESTAMP,
    "timestamp-micros": TIMESTAMP,
    "local-timestamp-millis": TIMESTAMP_NTZ,
    "local-timestamp-micros": TIMESTAMP_NTZ,
}
#: Spark type → Avro type
_NODES = {
    "boolean": Node("boolean"),
    "integer": Node("int"),
    "long": Node("long"),
    "float": Node("float"),
    "double": Node("double"),
    "string": Node("string"),
    "binary": Node("bytes"),
    "date": Node("int", "date"),
    "timestamp": Node("long", "timestamp-micros"),
    "timestamp_ntz": Node("long", "local-timestamp-micros"),
}


def columns_of(node: Node) -> Column:
    return _Columns().column(node, (), "the schema")


class _Columns:
    def __init__(self) -> None:
        self._count = 0

    def column(self, node: Node, above: tuple[Node, ...], where: str) -> Column:
        self._count += 1
        if self._count > _MOST_COLUMNS:
            raise OptionError(f"The schema has more than {_MOST_COLUMNS} columns.")
        if node in above:
            raise OptionError(f"{where} contains itself ({node}), which no type of Spark can.")
        if node.name:
            above = (*above, node)
        if node.type == "union":
            return self._union(node, above, where)
        if node.type == "record":
            names = [field.name for field in node.fields]
            return tree.struct(
                names, [self.column(each.node, above, f"{where}.{each.name}") for each in node.fields]
            )
        if node.type == "array":
            return tree.array(self.column(node.of[0], above, f"{where}[]"))
        if node.type == "map":
            return tree.mapping(tree.text(pa.string()), self.column(node.of[0], above, f"{where}{{}}"))
        if node.type == "null":
            return tree.nothing()
        if node.logical == "decimal":
            if node.precision > _MOST_DIGITS:
                raise OptionError(
                    f"{where} has {node.precision} digits, and Spark knows {_MOST_DIGITS} at most."
                )
            return tree.decimal(node.precision, node.scale)
        if node.type in ("string", "enum"):
            return tree.text(pa.string())
        if node.type in ("bytes", "fixed"):
            return tree.text(pa.binary())
        return tree.number(_NUMBERS.get(node.logical) or _NUMBERS[node.type])

    def _union(self, node: Node, above: tuple[Node, ...], where: str) -> Column:
        members = members_of(node)
        if not members:
            return tree.nothing()
        if len(members) == 1:
            return self.column(members[0], above, where)
        wide = wide_number(members)
        if wide is not None:
            return self.column(wide, above, where)
        return tree.struct(
            [f"member{index}" for index in range(len(members))],
            [self.column(each, above, where) for each in members],
        )


def members_of(union: Node) -> list[Node]:
    return [each for each in union.of if each.type != "null"]


def wide_number(members: list[Node]) -> Node | None:
    """Return the common type of a union of two numeric widths, or None for other unions."""
    kinds = {each.type for each in members}
    if len(members) == 2 and not any(each.logical for each in members):
        if kinds == {"int", "long"}:
            return Node("long")
        if kinds == {"float", "double"}:
            return Node("double")
    return None


def node_of(kind: Any, where: str) -> Node:
    """Return the reader schema for given columns: every field is optional and nullable."""
    return Node("union", of=[Node("null"), _some(kind, where)])


def _some(kind: Any, where: str) -> Node:
    name = kind.typeName()
    if name in _NODES:
        return _NODES[name]
    if name == "struct":
        fields = [
            Field(each.name, node_of(each.dataType, f"{where}.{each.name}"), (), None, True)
            for each in kind.fields
        ]
        repeated = [each.name for each in fields if kind.names.count(each.name) > 1]
        if repeated:
            raise OptionError(f"{where} has the field '{repeated[0]}' twice.")
        return Node("record", fields=fields)
    if name == "array":
        return Node("array", of=[node_of(kind.elementType, f"{where}[]")])
    if name == "map" and kind.keyType.typeName() == "string":
        return Node("map", of=[node_of(kind.valueType, f"{where}{{}}")])
    if name == "decimal":
        return Node("bytes", "decimal", precision=kind.precision, scale=kind.scale)
    raise OptionError(f"{where} cannot be read from Avro as {kind.simpleString()}.")
