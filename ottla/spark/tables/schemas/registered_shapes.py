"""Shapes of registered schemas: Avro's aliases and Protobuf's numbers tell which fields were renamed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ottla.client.schema_registry import Schema
from ottla.spark.formats.registered.decoder import format_decoder
from ottla.spark.formats.registered.schema_source import TYPES, SchemaSource
from ottla.spark.tables.schemas.columns import VALUE
from ottla.spark.tables.schemas.evolution import Breaking, Shape, plain_shape

_KINDS = {each: name for name, each in TYPES.items()}


def kind_of(schema: Schema) -> str:
    if schema.type not in _KINDS:
        raise Breaking(f"it was written with a schema of the unknown type {schema.type}")
    return _KINDS[schema.type]


def shape_of(schema: Schema, source: SchemaSource, referenced: dict[str, Schema]) -> Shape:
    """Return the shape of a schema. A value without fields becomes the column `value`."""
    kind = kind_of(schema)
    found = format_decoder(kind, source, schema, None, "value").type
    plain = plain_shape("", found)
    if kind == "avro":
        plain = _with_aliases(plain, schema, referenced)
    elif kind == "protobuf":
        plain = _with_numbers(plain, schema, source, referenced)
    if pa.types.is_struct(found):
        return plain
    return Shape("", pa.struct([pa.field(VALUE, found)]), children=(_as_value(plain),))


def _as_value(shape: Shape) -> Shape:
    return Shape(VALUE, shape.type, (), 0, shape.children, VALUE)


def _with_aliases(shape: Shape, schema: Schema, referenced: dict[str, Schema]) -> Shape:
    from ottla.spark.formats.avro.schema import parse

    node = parse(schema.text, [each.text for each in referenced.values()])
    return _avro(shape, node)


def _avro(shape: Shape, node: Any, aliases: tuple[str, ...] = ()) -> Shape:
    if node.type == "union":
        members = [each for each in node.of if each.type != "null"]
        if len(members) != 1:
            return Shape(shape.name, shape.type, aliases, 0, shape.children, shape.column)
        [node] = members
    children = shape.children
    if node.type == "record" and len(node.fields) == len(children):
        children = tuple(
            _avro(child, field.node, field.aliases)
            for child, field in zip(children, node.fields, strict=True)
        )
    elif node.type == "array" and pa.types.is_list(shape.type):
        children = (_avro(children[0], node.of[0]),)
    elif node.type == "map" and pa.types.is_map(shape.type):
        children = (children[0], _avro(children[1], node.of[0]))
    return Shape(shape.name, shape.type, aliases, 0, children, shape.column)


def _with_numbers(shape: Shape, schema: Schema, source: SchemaSource, referenced: dict[str, Schema]) -> Shape:
    from ottla.spark.formats.protobuf.messages import Types

    types = Types(schema, referenced)
    message = types.by_indexes((0,)) if source.message is None else types.by_name(source.message)
    return _protobuf(shape, types, message)


def _protobuf(shape: Shape, types: Any, message: str, number: int = 0) -> Shape:
    fields = {each.name: each for each in types.message(message).field}
    children = []
    for child in shape.children:
        field = fields[child.name]
        inner = child.children[0] if pa.types.is_list(child.type) else child
        if pa.types.is_struct(inner.type) and field.type_name:
            inner = _protobuf(inner, types, field.type_name.lstrip("."))
        nested = (inner,) if pa.types.is_list(child.type) else inner.children
        children.append(Shape(child.name, child.type, (), field.number, nested, child.column))
    return Shape(shape.name, shape.type, (), number, tuple(children), shape.column)
