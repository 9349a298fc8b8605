"""Promise: Google's library reads our encoded Protobuf messages, with a derived schema or a given one."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("numba")
pytest.importorskip("pyarrow")
pytest.importorskip("google.protobuf")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.schema_registry import PROTOBUF, Schema
from ottla.spark.formats.protobuf.encode_program import schema_of
from ottla.spark.formats.protobuf.encoder import ProtobufEncoder
from ottla.spark.formats.registered.schema_source import SchemaSource
from ottla.spark.formats.registered.writing import UnwritableRow
from ottla.spark.options import OptionError
from tests.spark.formats.test_protobuf_decoder import CLASSES, PROTO, REGISTRY, classes, decoded, some_order


def encoded(
    column: pa.Array, schema: str, source: SchemaSource | None = None, frame: bytes = b""
) -> list[bytes | None]:
    encoder = ProtobufEncoder(source or SchemaSource(), Schema(schema, PROTOBUF), column.type, "value")
    result = encoder.encode(column, frame)
    result.validate(full=True)
    return result.to_pylist()


@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_columns_of_a_message_are_written_so_that_googles_library_reads_the_same(number: int) -> None:
    seed = random.Random(number)
    orders = [some_order(seed) for _ in range(4)]
    for each in orders:
        # Unnamed enum values are null, and a list cannot contain one.
        each.ClearField("kinds")
    column = decoded([each.SerializeToString() for each in orders]).column
    for data, order in zip(encoded(column, PROTO), orders, strict=True):
        assert data is not None
        found = CLASSES["Order"].FromString(data)
        if order.kind == 9:
            order.ClearField("kind")
        for inner in (order, found):
            for name in ("at", "took"):
                if inner.HasField(name):
                    time = getattr(inner, name)
                    time.nanos = time.nanos // 1000 * 1000
        assert found == order


KIND = pa.struct(
    [
        ("id", pa.int64()),
        ("n", pa.int16()),
        ("big", pa.decimal128(20, 0)),
        ("name", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("took", pa.duration("us")),
        ("tags", pa.list_(pa.string())),
        ("xs", pa.list_(pa.float64())),
        ("place_of", pa.struct([("x", pa.float32()), ("data", pa.binary())])),
        ("items", pa.list_(pa.struct([("ok", pa.bool_())]))),
        ("m", pa.map_(pa.string(), pa.struct([("v", pa.int32())]))),
    ]
)


def test_the_schema_of_columns_and_what_is_written_with_it() -> None:
    row = {
        "id": -1,
        "n": 7,
        "big": Decimal(2**64 - 1),
        "name": "x" * 200,
        "at": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "took": timedelta(microseconds=-1_500_000),
        "tags": ["a", ""],
        "xs": [0.5] * 40,
        "place_of": {"x": 0.25, "data": b"y" * 20_000},
        "items": [{"ok": True}, {"ok": None}],
        "m": [("k", {"v": 3})],
    }
    schema = schema_of(KIND)
    message = classes(schema)["TopLevelRecord"]
    whole, none, empty = encoded(pa.array([row, None, dict.fromkeys(row)], KIND), schema, REGISTRY, b"12345")
    assert none is None
    assert whole is not None
    assert empty == b"12345\0"
    assert whole[:6] == b"12345\0"
    found = message.FromString(whole[6:])
    assert (found.id, found.n, found.big, found.name) == (-1, 7, 2**64 - 1, "x" * 200)
    assert (found.at.seconds, found.at.nanos, found.took.seconds, found.took.nanos) == (
        -1,
        999999000,
        -1,
        -500000000,
    )
    assert (list(found.tags), list(found.xs), found.place_of.data) == (["a", ""], [0.5] * 40, b"y" * 20_000)
    assert [each.HasField("ok") for each in found.items] == [True, False]
    assert found.m["k"].v == 3
    again = decoded([whole[6:]], schema).column.to_pylist()
    assert again == [row]


def test_messages_that_are_not_the_first_say_so() -> None:
    column = pa.array([{"x": "o"}], pa.struct([("x", pa.string())]))
    source = SchemaSource(REGISTRY.registry, message="Other")
    assert encoded(column, PROTO, source) == [b"\2\4" + CLASSES["Other"](x="o").SerializeToString()]
    inner = pa.array([{"deep": True}], pa.struct([("deep", pa.bool_())]))
    source = SchemaSource(REGISTRY.registry, message="Item.Inner")
    assert encoded(inner, PROTO, source) == [b"\4\2\0" + b"\x08\x01"]


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (pa.struct([("i32", pa.int64())]), {"i32": 2**31}, "i32 is out of the range"),
        (pa.struct([("u32", pa.int64())]), {"u32": -1}, "u32 is out of the range"),
        (pa.struct([("u64", pa.decimal128(20, 0))]), {"u64": Decimal(-1)}, "u64 is out of the range"),
        (pa.struct([("kind", pa.string())]), {"kind": "HUGE"}, "none of the values of its enum"),
        (pa.struct([("names", pa.list_(pa.string()))]), {"names": [None]}, r"names is null"),
    ],
)
def test_a_row_that_the_schema_does_not_take_is_named(kind: Any, value: Any, reason: str) -> None:
    with pytest.raises(UnwritableRow, match=reason) as refused:
        encoded(pa.array([None, value], kind), PROTO)
    assert refused.value.row == 1


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (pa.struct([("nobody", pa.int32())]), "the schema has no field nobody"),
        (pa.struct([("i32", pa.string())]), "i32 is string, and the schema wants int32"),
        (pa.struct([("names", pa.string())]), "names is string, and the schema wants a list"),
        (pa.int32(), "the schema wants a message"),
    ],
)
def test_columns_that_the_schema_does_not_take_are_refused(kind: Any, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        encoded(pa.array([], kind), PROTO)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (pa.int32(), "written from a struct"),
        (pa.struct([("a b", pa.int32())]), "a b is not a valid Protobuf field name"),
        (pa.struct([("d", pa.date32())]), "d is date32.*cast it"),
        (pa.struct([("xs", pa.list_(pa.list_(pa.int32())))]), "xs is list.*cast it"),
        (pa.struct([("m", pa.map_(pa.float64(), pa.int32()))]), "a map whose keys are double"),
    ],
)
def test_types_that_protobuf_does_not_have_are_refused(kind: Any, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        schema_of(kind)
