"""Promise: our Protobuf decoder agrees with Google's library, and invalid bytes affect only their own row."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("numba")
pytest.importorskip("pyarrow")
pytest.importorskip("google.protobuf")

import numpy as np
import pyarrow as pa
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.schema_registry import PROTOBUF, RegistrySettings, Schema
from ottla.registry.schemas.protobuf import parse_protobuf
from ottla.spark.formats.json_decoder import Decoded
from ottla.spark.formats.protobuf.decoder import ProtobufFormat
from ottla.spark.formats.registered.schema_source import SchemaSource
from ottla.spark.options import OptionError

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
message Order {
  int32 i32 = 1; int64 i64 = 2; uint32 u32 = 3; uint64 u64 = 4; sint32 s32 = 5; sint64 s64 = 6;
  fixed32 f32 = 7; fixed64 f64 = 8; sfixed32 sf32 = 9; sfixed64 sf64 = 10;
  float fl = 11; double db = 12; bool ok = 13; string name = 14; bytes data = 15;
  optional int32 maybe = 16;
  Kind kind = 17;
  Item item = 18;
  repeated int32 packed = 19;
  repeated string names = 20;
  repeated Item items = 21;
  map<string, int64> counts = 22;
  map<int32, Item> by_number = 23;
  oneof choice { string text = 24; Item thing = 25; int32 number = 26; }
  google.protobuf.Timestamp at = 27;
  google.protobuf.Duration took = 28;
  google.protobuf.StringValue note = 29;
  google.protobuf.Int64Value wrapped = 30;
  repeated double unpacked = 31 [packed = false];
  repeated Kind kinds = 32;
}
message Item { string id = 1; repeated int64 sizes = 2; Inner inner = 3; message Inner { bool deep = 1; } }
enum Kind { NONE = 0; SMALL = 1; LARGE = 5; }
message Other { string x = 1; }
"""
PLAIN = SchemaSource()
REGISTRY = SchemaSource(registry=RegistrySettings(("http://nowhere",)))


def classes(text: str) -> dict[str, Any]:
    schema = parse_protobuf(text, {})
    pool = descriptor_pool.DescriptorPool()
    for name, each in schema.imports.items():
        each.name = name
        pool.Add(each)
    schema.raw.name = "test.proto"
    pool.Add(schema.raw)
    found = [
        pool.FindMessageTypeByName(f"{schema.raw.package}.{each.name}".lstrip("."))
        for each in schema.raw.message_type
    ]
    return {each.name: message_factory.GetMessageClass(each) for each in found}


CLASSES = classes(PROTO)


def decoded(
    records: list[bytes | None],
    reader: str = PROTO,
    *writers: str,
    source: SchemaSource = PLAIN,
    which: Any = None,
) -> Decoded:
    decoder = ProtobufFormat(source, Schema(reader, PROTOBUF), None, "value")
    numbers = [decoder.add(Schema(each, PROTOBUF), {}, b"") for each in writers or (reader,)]
    rows = [
        numbers[0 if which is None else which[row]] if each is not None else -1
        for row, each in enumerate(records)
    ]
    column = pa.array(records, pa.binary())
    result = decoder.decode(column, np.array(rows, np.int64), np.zeros(len(rows), np.int64))
    result.column.validate(full=True)
    assert len(result.column) == len(records)
    return result


def expected(message: Any) -> dict[str, Any]:
    """Return the values that Google's library reads, in the form of our columns."""
    return {field.name: _expected(message, field) for field in message.DESCRIPTOR.fields}


def _expected(message: Any, field: FieldDescriptor) -> Any:
    value = getattr(message, field.name)
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        inner = kind.fields_by_name["value"]
        return sorted((key, _plain(value[key], inner)) for key in value)
    if field.is_repeated:
        return [_plain(each, field) for each in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _plain(value, field)


def _plain(value: Any, field: FieldDescriptor) -> Any:
    if field.type == FieldDescriptor.TYPE_ENUM:
        found = field.enum_type.values_by_number.get(value)
        return found.name if found else None
    if field.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64):
        return Decimal(value)
    if field.type != FieldDescriptor.TYPE_MESSAGE:
        return value
    name = field.message_type.full_name
    if name == "google.protobuf.Timestamp":
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
            seconds=value.seconds, microseconds=value.nanos // 1000
        )
    if name == "google.protobuf.Duration":
        return timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if name.endswith("Value") and name.startswith("google."):
        return value.value
    return expected(value)


def found(result: Decoded) -> list[Any]:
    return [_sorted(each) for each in result.column.to_pylist()]


def _sorted(row: Any) -> Any:
    if row is None:
        return None
    return {
        name: sorted(value)
        if name in ("counts", "by_number")
        else _sorted(value)
        if isinstance(value, dict)
        else value
        for name, value in row.items()
    }


def some_order(seed: random.Random) -> Any:
    order = CLASSES["Order"]()
    _fill(order, seed, 3)
    return order


def _fill(message: Any, seed: random.Random, depth: int) -> None:
    for field in message.DESCRIPTOR.fields:
        if seed.random() < 0.4:
            continue
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            for _ in range(seed.randrange(3)):
                key = _scalar(kind.fields_by_name["key"], seed)
                value = kind.fields_by_name["value"]
                if value.message_type is None:
                    getattr(message, field.name)[key] = _scalar(value, seed)
                else:
                    _fill(getattr(message, field.name)[key], seed, depth - 1)
        elif kind is not None and kind.full_name.startswith("google."):
            target = getattr(message, field.name)
            if kind.name == "Timestamp":
                target.FromDatetime(
                    datetime(1970, 1, 1) + timedelta(microseconds=seed.randrange(-(10**15), 10**15))
                )
            elif kind.name == "Duration":
                target.FromMicroseconds(seed.randrange(0, 10**15))
            else:
                target.value = _scalar(kind.fields_by_name["value"], seed)
        elif field.is_repeated:
            for _ in range(seed.randrange(4)):
                if kind is not None:
                    _fill(getattr(message, field.name).add(), seed, depth - 1)
                else:
                    getattr(message, field.name).append(_scalar(field, seed))
        elif kind is not None:
            getattr(message, field.name).SetInParent()
            if depth:
                _fill(getattr(message, field.name), seed, depth - 1)
        else:
            setattr(message, field.name, _scalar(field, seed))


def _scalar(field: FieldDescriptor, seed: random.Random) -> Any:
    kind = field.type
    if kind == FieldDescriptor.TYPE_STRING:
        return "".join(seed.choices("aß😀z", k=seed.randrange(5)))
    if kind == FieldDescriptor.TYPE_BYTES:
        return seed.randbytes(seed.randrange(5))
    if kind == FieldDescriptor.TYPE_BOOL:
        return seed.random() < 0.5
    if kind == FieldDescriptor.TYPE_ENUM:
        return seed.choice([0, 1, 5, 9])
    if kind in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
        return seed.choice([0.0, 0.5, -2.25, 1e10, float("inf")])
    bits = 32 if field.cpp_type in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32) else 64
    unsigned = field.cpp_type in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64)
    low = 0 if unsigned else -(1 << (bits - 1))
    return seed.choice([0, 1, seed.randrange(low, low + (1 << bits)), low, low + (1 << bits) - 1])


@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_any_message_is_read_as_googles_library_reads_it(number: int) -> None:
    seed = random.Random(number)
    orders = [some_order(seed) for _ in range(5)]
    result = decoded([each.SerializeToString() for each in orders] + [None])
    assert result.reasons == {}
    assert found(result) == [expected(each) for each in orders] + [None]


@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_damaged_messages_are_bad_or_what_the_library_reads_and_harm_no_others(number: int) -> None:
    seed = random.Random(number)
    good = some_order(seed)
    data = bytearray(some_order(seed).SerializeToString())
    for _ in range(seed.randint(1, 3)):
        where = seed.randrange(len(data) + 1)
        data[where : where + seed.randrange(2)] = seed.randbytes(seed.randrange(3))
    if seed.random() < 0.3:
        del data[seed.randrange(len(data) + 1) :]
    damaged = bytes(data)
    result = decoded([good.SerializeToString(), damaged, good.SerializeToString()])
    assert found(Decoded(result.column.take(pa.array([0, 2])), {})) == [expected(good)] * 2
    alone = decoded([damaged])
    assert alone.reasons.get(0) == result.reasons.get(1)
    assert _shown(alone.column) == _shown(result.column.take(pa.array([1])))
    try:
        CLASSES["Order"].FromString(damaged)
    except DecodeError:
        assert list(result.reasons) == [1]
    else:
        assert result.reasons == {}


def _shown(column: pa.Array) -> str:
    """Return a printable value. Damaged bytes may give a NaN, or a time outside Python's range."""
    return column.to_string(window=1_000_000, container_window=1_000_000)


def test_repeated_parts_are_merged_and_the_last_member_of_a_oneof_counts() -> None:
    first, second = CLASSES["Order"](), CLASSES["Order"]()
    first.item.id, first.text, first.i32 = "a", "gone", 1
    first.item.sizes.extend([1, 2])
    second.item.sizes.append(3)
    second.number, second.i32 = 4, 2
    data = first.SerializeToString() + second.SerializeToString()
    assert found(decoded([data])) == [expected(CLASSES["Order"].FromString(data))]


def test_fields_of_newer_writers_are_passed_over_and_those_of_older_ones_have_defaults() -> None:
    newer = 'syntax = "proto3"; message M { int64 a = 1; string b = 2; repeated N c = 9; message N { int32 x = 1; } }'
    older = 'syntax = "proto3"; message M { int64 a = 1; optional string z = 5; }'
    value = classes(newer)["M"](a=5, b="x")
    value.c.add().x = 1
    assert found(decoded([value.SerializeToString()], older)) == [{"a": 5, "z": None}]
    group = b"\x1b\x08\x01\x1b\x1c\x1c" + b"\x08\x07"  # a nested group, a proto2 feature
    assert found(decoded([group], older)) == [{"a": 7, "z": None}]
    assert found(decoded([b"\x0a\x01x" + b"\x08\x07"], older)) == [{"a": 7, "z": None}]


def test_proto2_says_what_is_missing() -> None:
    fields = "optional int32 a = 1 [default = 4]; required string b = 2; repeated int32 c = 3;"
    text = f'syntax = "proto2"; message M {{ {fields} }}'
    assert found(decoded([b"", b"\x08\x00\x18\x01\x18\x02"], text)) == [
        {"a": None, "b": None, "c": []},
        {"a": 0, "b": None, "c": [1, 2]},
    ]


def test_records_say_which_message_they_are() -> None:
    order, other = CLASSES["Order"](i32=7).SerializeToString(), CLASSES["Other"](x="o").SerializeToString()
    records = [
        b"\0" + order,
        b"\2\0" + order,
        b"\2\4" + other,
        b"\2\x7e" + order,
        b"",
        b"\xff",
        b"\4\2\0" + order,
    ]
    result = decoded(list(records), source=REGISTRY)
    assert [row and row["i32"] for row in result.column.to_pylist()] == [7, 7, *[None] * 5]
    assert result.reasons == {
        2: "it is a message shop.Other, not shop.Order",
        3: "it has no message 63",
        4: "it does not say which message it is",
        5: "it does not say which message it is",
        6: "it is a message shop.Item.Inner, not shop.Order",
    }
    others = ProtobufFormat(
        SchemaSource(REGISTRY.registry, message="Other"), Schema(PROTO, PROTOBUF), None, "value"
    )
    number = others.add(Schema(PROTO, PROTOBUF), {}, b"")
    column = others.decode(pa.array([b"\2\4" + other]), np.array([number]), np.zeros(1, np.int64)).column
    assert column.to_pylist() == [{"x": "o"}]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x08", "it ends within shop.Order"),
        (b"\x08" + b"\x80" * 11, "a number of more than ten bytes"),
        (b"\x72\x05ab", "it ends within shop.Order"),
        (b"\x72\x01\xff", "a string of shop.Order is not UTF-8"),
        (b"\x00\x01", "begin no field"),
        (b"\x0f", "begin no field"),
        (b"\x1c", "ends a group that did not begin"),
        (b"\x1b\x24", "ends a group that did not begin"),
        (b"\x1b\x08\x01", "it ends within"),
        (b"\x92\x01\x05\x0a\x01", "it ends within"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, reason: str) -> None:
    result = decoded([data])
    assert result.column.to_pylist() == [None]
    assert reason in result.reasons[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('syntax = "proto3"; message M { M next = 1; }', "contains itself"),
        ("no proto", "cannot be used"),
        ('syntax = "proto3"; enum E { A = 0; }', "it has no message 0"),
    ],
)
def test_schemas_that_make_no_columns_are_refused(text: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        decoded([], text)
