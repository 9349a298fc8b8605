"""Converts records to Elasticsearch documents, with ids and schema-based mappings."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Mapping
from typing import Any

from ottla.connect.connectors.values.plain import jsonable, milliseconds
from ottla.connect.data.record import SinkRecord
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError

_TYPES = {
    SchemaType.INT8: "byte",
    SchemaType.INT16: "short",
    SchemaType.INT32: "integer",
    SchemaType.INT64: "long",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "boolean",
    SchemaType.BYTES: "binary",
}
_LOGICAL = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "date",
    "org.apache.kafka.connect.data.Timestamp": "date",
    "org.apache.kafka.connect.data.Decimal": "double",
}
_LONGEST_NAME = 255


def index_name(topic: str) -> str:
    name = topic.lower()[:_LONGEST_NAME].lstrip("-_")
    return {".": "dot", "..": "dotdot"}.get(name, name)


def document_id(record: SinkRecord, key_ignored: bool) -> str:
    """Raises DataError for a record whose key cannot be an id."""
    if key_ignored:
        return f"{record.original_topic}+{record.original_partition}+{record.offset}"
    key = record.key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str | int):
        return str(key)
    if key is None:
        raise DataError(
            "Key is used as document id and can not be null. Set key.ignore to true to use the offset."
        )
    raise DataError(
        f"{type(key).__name__} is not supported as the document id: take one field of the key by a transform, "
        "or set key.ignore to true."
    )


def document(value: Any, compact_maps: bool) -> dict[str, Any]:
    if not isinstance(value, Struct | Mapping):
        raise DataError(f"A document has to be a struct or a map, not {type(value).__name__}.")
    found: dict[str, Any] = _document(value, compact_maps)
    return found


def _document(value: Any, compact_maps: bool) -> Any:
    if isinstance(value, Struct):
        return {field.name: _document(value.get(field.name), compact_maps) for field in value.schema.fields}
    if isinstance(value, Mapping):
        if compact_maps or all(isinstance(key, str) for key in value):
            return {str(key): _document(each, compact_maps) for key, each in value.items()}
        return [{"key": jsonable(key), "value": _document(each, compact_maps)} for key, each in value.items()]
    if isinstance(value, list | tuple):
        return [_document(each, compact_maps) for each in value]
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return milliseconds(dt.datetime(value.year, value.month, value.day))
    return jsonable(value)


def mapping(schema: Schema) -> dict[str, Any]:
    if schema.name in _LOGICAL:
        return {"type": _LOGICAL[schema.name]}
    if schema.type is SchemaType.STRUCT:
        return {"properties": {field.name: mapping(field.schema) for field in schema.fields}}
    if schema.type is SchemaType.ARRAY and schema.value_schema is not None:
        return mapping(schema.value_schema)
    if schema.type is SchemaType.MAP:
        return {"type": "object"}
    if schema.type is SchemaType.STRING:
        return {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}
    return {"type": _TYPES[schema.type]}
