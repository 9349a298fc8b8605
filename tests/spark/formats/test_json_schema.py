"""Promise: a JSON Schema defines columns, and their values survive writing and reading."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("numba")
pytest.importorskip("pyspark")

import jsonschema_rs
import numpy as np
import pyarrow as pa

from ottla.client.schema_registry import JSON, Schema
from ottla.spark.formats.json_schema.decoder import JsonSchemaFormat
from ottla.spark.formats.json_schema.encoder import JsonSchemaEncoder
from ottla.spark.formats.json_schema.types import schema_of, type_of
from ottla.spark.formats.registered.schema_source import SchemaSource
from ottla.spark.options import OptionError


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, "string"),
        ({"type": "integer"}, "bigint"),
        ({"type": "integer", "connect.type": "int32"}, "int"),
        ({"type": "number"}, "double"),
        ({"type": ["null", "boolean"]}, "boolean"),
        ({"type": ["integer", "number", "null"]}, "double"),
        ({"type": ["string", "integer"]}, "string"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "connect.type": "bytes"}, "binary"),
        ({"enum": ["a", "b"]}, "string"),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>"),
        ({"type": "array"}, "array<string>"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "map<string,double>"),
        ({"type": "object"}, "string"),
        ({"properties": {"a": {"type": "string"}}}, "struct<a:string>"),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, "bigint"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "string"),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"type": "integer"}}}, "bigint"),
        ({"$ref": "#/definitions/none"}, "string"),
        (
            {"type": "object", "properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}},
            "struct<next:struct<next:string,n:bigint>,n:bigint>",
        ),
        (
            {
                "allOf": [{"properties": {"a": {"type": "integer"}}}, {"$ref": "#/$defs/b"}],
                "$defs": {"b": {"type": "object", "properties": {"b": {"type": "string"}}}},
            },
            "struct<a:bigint,b:string>",
        ),
        (True, "string"),
    ],
)  # fmt: skip
def test_what_a_schema_makes(schema: Any, expected: str) -> None:
    assert type_of(Schema(json.dumps(schema), JSON), {}).simpleString() == expected


def test_references_are_found_by_their_name() -> None:
    other = Schema('{"type": "object", "properties": {"x": {"type": "number"}}}', JSON)
    assert (
        type_of(Schema('{"$ref": "place.json"}', JSON), {"place.json": other}).simpleString()
        == "struct<x:double>"
    )
    with pytest.raises(OptionError, match="it is not JSON"):
        type_of(Schema("{", JSON), {})


def test_texts_are_read_after_their_framing() -> None:
    schema = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}},
    }
    decoder = JsonSchemaFormat(SchemaSource(), Schema(json.dumps(schema), JSON), None, "value")
    values = [b'\0\0\0\0\1{"id": 1, "at": "2024-01-02T03:04:05Z"}', None, b'{"id": "x"}', b'{"id": 4}']
    result = decoder.decode(pa.array(values, pa.binary()), np.array([0, -1, 0, 0]), np.array([5, 0, 0, 0]))
    at = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert result.column.to_pylist() == [{"id": 1, "at": at}, None, None, {"id": 4, "at": None}]
    assert result.reasons == {2: 'id is "x", not bigint'}


KIND = pa.struct(
    [
        ("id", pa.int64()),
        ("n", pa.int32()),
        ("f", pa.float64()),
        ("name", pa.string()),
        ("ok", pa.bool_()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("data", pa.binary()),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("m", pa.map_(pa.string(), pa.struct([("x", pa.float32())]))),
    ]
)


def test_what_is_written_is_valid_and_is_read_back() -> None:
    row = {
        "id": 2**60,
        "n": -1,
        "f": 1e-300,
        "name": 'grüß"\n',
        "ok": False,
        "at": datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        "day": date(2024, 2, 29),
        "data": b"\0\xff",
        "tags": ["a", None],
        "m": [("k", {"x": 0.5}), ("l", None)],
    }
    column = pa.array([row, None, dict.fromkeys(row)], KIND)
    schema = schema_of(KIND)
    texts = JsonSchemaEncoder(KIND).encode(column, b"12345")
    for text in texts.to_pylist():
        if text is not None:
            assert text[:5] == b"12345"
            jsonschema_rs.validate(json.loads(schema), json.loads(text[5:]))
    decoder = JsonSchemaFormat(SchemaSource(), Schema(schema, JSON), None, "value")
    result = decoder.decode(texts, np.array([0, -1, 0]), np.full(3, 5))
    assert result.reasons == {}
    assert result.column.to_pylist() == column.to_pylist()


def test_decimals_are_numbers() -> None:
    column = pa.array([Decimal("1.50"), Decimal("2.00")], pa.decimal128(5, 2))
    assert JsonSchemaEncoder(column.type).encode(column, b"").to_pylist() == [b"1.5", b"2"]
