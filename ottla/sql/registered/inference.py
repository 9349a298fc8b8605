"""Columns inferred from a schema as in ksqlDB. Fields without a SQL type are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ottla.client.schema_registry import AVRO, PROTOBUF, Schema
from ottla.spark.formats.avro.columns import members_of, wide_number
from ottla.spark.formats.avro.schema import Node, parse
from ottla.spark.formats.protobuf.messages import Types, is_wrapper, map_entry
from ottla.sql.sql_types import Field, SqlType

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto


class NotUsable(Exception):
    """The schema yields no columns. The message says why."""


def whole_type(schema: Schema, referenced: dict[str, Schema], message: str | None = None) -> SqlType | None:
    """Return the SQL type of a schema with names unchanged; a STRUCT for a record."""
    if schema.type == AVRO:
        return _avro(parse(schema.text, [each.text for each in referenced.values()]), ())
    if schema.type == PROTOBUF:
        types = Types(schema, referenced)
        name = types.by_indexes((0,)) if message is None else types.by_name(message)
        return _Messages(types).struct(name, ())
    from ottla.sql.registered.json_schemas import type_of_schema

    return type_of_schema(schema, referenced)


def upper(kind: SqlType) -> SqlType:
    """Convert field names to upper case, as ksqlDB does without an explicit schema id."""
    fields: dict[str, Field] = {}
    for each in kind.fields:
        fields.setdefault(each.name.upper(), Field(each.name.upper(), each.written, upper(each.type)))
    return SqlType(
        kind.name,
        kind.precision,
        kind.scale,
        None if kind.element is None else upper(kind.element),
        tuple(fields.values()),
    )


def _struct(fields: Iterator[tuple[str, SqlType | None]]) -> SqlType | None:
    known = tuple(Field(name, name, kind) for name, kind in fields if kind is not None)
    return SqlType("STRUCT", fields=known) if known else None


def _of(name: str, element: SqlType | None) -> SqlType | None:
    return None if element is None else SqlType(name, element=element)


# Avro

_SIMPLE = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "DOUBLE",
    "double": "DOUBLE",
    "string": "STRING",
    "enum": "STRING",
    "bytes": "BYTES",
    "fixed": "BYTES",
    "date": "DATE",
    "time-millis": "TIME",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP",
    "local-timestamp-micros": "TIMESTAMP",
}


def _avro(node: Node, above: tuple[Node, ...]) -> SqlType | None:
    if node in above:
        raise NotUsable(f"{node} contains itself")
    if node.name:
        above = (*above, node)
    if node.type == "union":
        members = members_of(node)
        member = members[0] if len(members) == 1 else wide_number(members)
        return None if member is None else _avro(member, above)
    if node.type == "record":
        return _struct((each.name, _avro(each.node, above)) for each in node.fields)
    if node.type == "array":
        entry = _entry(node.of[0])
        if entry is not None:
            return _of("MAP", _avro(entry, above))
        return _of("ARRAY", _avro(node.of[0], above))
    if node.type == "map":
        return _of("MAP", _avro(node.of[0], above))
    if node.logical == "decimal":
        return SqlType("DECIMAL", node.precision, node.scale)
    name = _SIMPLE.get(node.logical) or _SIMPLE.get(node.type)
    return None if name is None else SqlType(name)


def _entry(element: Node) -> Node | None:
    record = next((each for each in element.branches if each.is_map_entry), None)
    if record is None or [each.name for each in record.fields] != ["key", "value"]:
        return None
    return record.fields[1].node


# Protobuf

_MESSAGES = {
    "google.protobuf.Timestamp": "TIMESTAMP",
    "google.type.Date": "DATE",
    "google.type.TimeOfDay": "TIME",
}
DECIMAL_MESSAGE = "confluent.type.Decimal"
_META = 1088
#: Default for a decimal without metadata. Connect's default precision exceeds SQL's maximum.
_PRECISION, _SCALE = 18, 0


class _Messages:
    def __init__(self, types: Types) -> None:
        self._types = types

    def struct(self, name: str, above: tuple[str, ...]) -> SqlType | None:
        if name in above:
            raise NotUsable(f"the message {name} contains itself")
        above = (*above, name)
        return _struct((each.name, self._field(each, above)) for each in self._types.message(name).field)

    def _field(self, field: FieldDescriptorProto, above: tuple[str, ...]) -> SqlType | None:
        if field.label != field.LABEL_REPEATED:
            return self._one(field, above)
        entry = map_entry(self._types, field)
        if entry is not None:
            return _of("MAP", self._one(entry.field[1], above))
        return _of("ARRAY", self._one(field, above))

    def _one(self, field: FieldDescriptorProto, above: tuple[str, ...]) -> SqlType | None:
        if field.type == field.TYPE_GROUP:
            return None
        if field.type != field.TYPE_MESSAGE:
            return SqlType(_scalar(field.type))
        name = field.type_name.lstrip(".")
        if name in _MESSAGES:
            return SqlType(_MESSAGES[name])
        if name == DECIMAL_MESSAGE:
            said = dict(_meta(field.options.SerializeToString()))
            precision, scale = said.get("precision", ""), said.get("scale", "")
            return SqlType(
                "DECIMAL",
                int(precision) if precision.isdigit() else _PRECISION,
                int(scale) if scale.isdigit() else _SCALE,
            )
        if is_wrapper(name):
            return SqlType(_scalar(self._types.message(name).field[0].type))
        if name == "google.protobuf.Duration":
            return None
        return self.struct(name, above)


def _scalar(kind: Any) -> str:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as F

    if kind in (F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32):
        return "INTEGER"
    if kind in (F.TYPE_FLOAT, F.TYPE_DOUBLE):
        return "DOUBLE"
    if kind in (F.TYPE_STRING, F.TYPE_ENUM):
        return "STRING"
    named = {F.TYPE_BOOL: "BOOLEAN", F.TYPE_BYTES: "BYTES"}
    return named.get(kind, "BIGINT")


def _meta(options: bytes) -> Iterator[tuple[str, str]]:
    """Yield the parameters of (confluent.field_meta), which Protobuf's own options message does not know."""
    for number, meta in _parts(options):
        for inner, entry in _parts(meta) if number == _META else ():
            if inner == 2:
                pair = dict(_parts(entry))
                yield pair.get(1, b"").decode(), pair.get(2, b"").decode()


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 2:
            size, at = _varint(data, at)
            yield tag >> 3, data[at : at + size]
            at += size
        elif tag & 7 == 0:
            _, at = _varint(data, at)
        else:
            at += 8 if tag & 7 == 1 else 4


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return value, at
