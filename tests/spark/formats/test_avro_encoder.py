"""Promise: fastavro reads our encoded records, with spark-avro's derived schema or a given one."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("numba")
pytest.importorskip("pyarrow")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.spark.formats.avro.encode_program import Unwritable, schema_of
from ottla.spark.formats.avro.encoder import AvroEncoder
from ottla.spark.formats.avro.schema import parse
from ottla.spark.formats.registered.writing import UnwritableRow
from tests.spark.formats.avro_schemas import read, schemas, values, written
from tests.spark.formats.test_avro_decoder import decoded


def encoded(column: pa.Array, schema: Any, frame: bytes = b"") -> list[bytes | None]:
    result = AvroEncoder(parse(json.dumps(schema)), column.type).encode(column, frame)
    result.validate(full=True)
    return result.to_pylist()


@settings(max_examples=120)
@given(st.data())
def test_columns_of_any_schema_are_written_so_that_fastavro_reads_the_same(data: Any) -> None:
    schema = data.draw(schemas())
    rows = [written(schema, each) for each in data.draw(st.lists(values(schema), min_size=1, max_size=6))]
    column = decoded(list(rows), schema).column
    again = encoded(column, schema)
    for row, data_, value in zip(rows, again, column.to_pylist(), strict=True):
        if value is None:
            assert data_ is None  # a null record is a tombstone
        else:
            assert data_ is not None
            assert read(data_, schema) == read(row, schema)


KIND = pa.struct(
    [
        ("id", pa.int64()),
        ("small", pa.int16()),
        ("name", pa.string()),
        ("price", pa.decimal128(9, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.string())),
        ("places", pa.map_(pa.string(), pa.struct([("x", pa.float64()), ("f", pa.float32())]))),
        ("data", pa.binary()),
        ("ok", pa.bool_()),
    ]
)
ROW = {
    "id": -(2**63),
    "small": -5,
    "name": "grüß",
    "price": Decimal("-1234567.89"),
    "at": datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    "local": datetime(1969, 1, 2, 3, 4, 5, 678901),
    "day": date(2024, 2, 29),
    "tags": ["a", None, ""],
    "places": [("home", {"x": 1.5, "f": 0.5}), ("away", None)],
    "data": b"\0\xff",
    "ok": True,
}


def test_the_schema_of_columns_is_that_of_spark_avro() -> None:
    schema = json.loads(schema_of(KIND))
    assert (schema["type"], schema["name"]) == ("record", "topLevelRecord")
    types = {each["name"]: each["type"] for each in schema["fields"]}
    assert types["id"] == ["long", "null"]
    assert types["price"] == [
        {
            "type": "fixed",
            "name": "fixed",
            "namespace": "topLevelRecord.price",
            "size": 4,
            "logicalType": "decimal",
            "precision": 9,
            "scale": 2,
        },
        "null",
    ]
    assert types["at"] == [{"type": "long", "logicalType": "timestamp-micros"}, "null"]
    place = types["places"][0]["values"][0]
    assert (place["name"], place["namespace"]) == ("places", "topLevelRecord")


def test_rows_nulls_and_slices_are_written() -> None:
    schema = json.loads(schema_of(KIND))
    column = pa.array([ROW, None, dict.fromkeys(ROW), ROW], KIND)
    expected = {**ROW, "places": dict(ROW["places"])}  # type: ignore[call-overload]
    found = encoded(column, schema, b"\0\0\0\0\7")
    assert found[1] is None
    assert all(each is None or each[:5] == b"\0\0\0\0\7" for each in found)
    assert [each and read(each[5:], schema) for each in found] == [
        expected,
        None,
        dict.fromkeys(ROW),
        expected,
    ]
    assert encoded(column.slice(2), schema) == [each[5:] for each in found[2:] if each]


def test_lists_below_nulls_are_passed_over() -> None:
    inner = pa.array([[1, 2], [3], [4, 5, 6]], pa.list_(pa.int32()))
    column = pa.StructArray.from_arrays([inner], ["xs"], mask=pa.array([False, True, False]))
    schema = json.loads(schema_of(column.type))
    assert [each and read(each, schema)["xs"] for each in encoded(column, schema)] == [
        [1, 2],
        None,
        [4, 5, 6],
    ]


def test_a_schema_of_ones_own_is_written() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "BB"]}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "code", "type": {"type": "fixed", "name": "F", "size": 2}},
            {"name": "count", "type": "int", "default": 7},
            {"name": "id", "type": ["null", "int", "long"]},
        ],
    }
    kind = pa.struct(
        [
            ("id", pa.int64()),
            ("kind", pa.string()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("code", pa.binary()),
        ]
    )
    at = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    column = pa.array([{"id": 2**40, "kind": "BB", "at": at, "code": b"xy"}], kind)
    [data] = encoded(column, schema)
    assert data is not None
    assert read(data, schema) == {
        "id": 2**40,
        "kind": "BB",
        "at": at,
        "code": b"xy",
        "note": None,
        "count": 7,
    }


@pytest.mark.parametrize(
    ("kind", "schema", "value", "reason"),
    [
        (pa.int64(), "int", 2**31, "out of the range"),
        (pa.binary(), {"type": "fixed", "name": "F", "size": 2}, b"xyz", "not the size"),
        (pa.string(), {"type": "enum", "name": "E", "symbols": ["A"]}, "B", "none of the symbols"),
        (
            pa.struct([("a", pa.int32())]),
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]},
            {"a": None},
            "a is null",
        ),
    ],
)
def test_a_row_that_the_schema_does_not_take_is_named(
    kind: Any, schema: Any, value: Any, reason: str
) -> None:
    with pytest.raises(UnwritableRow, match=reason) as refused:
        encoded(pa.array([None, value], kind), schema)
    assert refused.value.row == 1


@pytest.mark.parametrize(
    ("kind", "schema", "reason"),
    [
        (pa.string(), "int", "the value is string, and the schema wants int"),
        (
            pa.struct([("b", pa.int32())]),
            {"type": "record", "name": "R", "fields": []},
            "the schema has no field b",
        ),
        (
            pa.struct([("a", pa.int32())]),
            {
                "type": "record",
                "name": "R",
                "fields": [{"name": "a", "type": "int"}, {"name": "c", "type": "int"}],
            },
            "there is no column for the field c, which has no default",
        ),
    ],
)
def test_columns_that_the_schema_does_not_take_are_refused(kind: Any, schema: Any, reason: str) -> None:
    with pytest.raises(Unwritable, match=reason):
        encoded(pa.array([], kind), schema)


def test_large_rows_make_room() -> None:
    column = pa.array([["x" * 1000] * 300, ["y"]], pa.list_(pa.string()))
    schema = {"type": "array", "items": "string"}
    assert [read(each, schema) for each in encoded(column, schema) if each] == column.to_pylist()


def test_a_null_becomes_the_default_only_on_request() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": "int", "default": 7},
            {"name": "b", "type": "string", "default": "none"},
            {"name": "c", "type": ["null", "int"], "default": None},
        ],
    }
    kind = pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.int32())])
    column = pa.array([{"a": None, "b": None, "c": None}, {"a": 1, "b": "x", "c": 2}], kind)
    encoder = AvroEncoder(parse(json.dumps(schema)), kind, null_is_default=True)
    found = [read(data, schema) for data in encoder.encode(column).to_pylist()]
    assert found == [{"a": 7, "b": "none", "c": None}, {"a": 1, "b": "x", "c": 2}]
    with pytest.raises(UnwritableRow, match="a is null, which the schema does not allow"):
        AvroEncoder(parse(json.dumps(schema)), kind).encode(column)
