"""Decoding cost is proportional to the data: a few bytes can neither keep a server busy nor crash it."""

from __future__ import annotations

import base64
import io
import json
import time
from collections.abc import Callable
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.avro_decoding import MOST_LEVELS, AvroDecoder, is_bounded
from ottla.client.schema_codecs import MOST_JSON_LEVELS, BadData, Codec, codec_of, decode, encode
from ottla.client.schema_registry import Schema

NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
EMPTY = {"type": "record", "name": "Empty", "fields": [{"name": "nothing", "type": "null"}]}
THREE_MILLION = b"\x80\x9b\xee\x02"  # an array block count; nulls need no bytes after it


def avro(schema: Any) -> Codec:
    return codec_of(Schema(json.dumps(schema), "AVRO"), {}, lambda _: "")


def refuse(codec: Codec, payload: bytes, sentence: str, most_items: int | None = None) -> None:
    began = time.monotonic()
    with pytest.raises(BadData, match=sentence):
        decode(codec, payload, most_items)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("items", ["null", EMPTY, {"type": "fixed", "name": "Zero", "size": 0}])
def test_an_array_has_no_more_items_than_its_bytes_are_worth(items: Any) -> None:
    codec = avro({"type": "array", "items": items})
    refuse(codec, THREE_MILLION + b"\0", "more items")
    negative = b"\xff\x9a\xee\x02\0"  # the block size follows a negative count
    refuse(codec, negative + b"\0", "more items")


def test_many_small_blocks_are_added_up() -> None:
    refuse(avro({"type": "array", "items": "null"}), b"\xa0\x8d\x06" * 100 + b"\0", "more items")


def test_nulls_within_reason_are_decoded() -> None:
    assert decode(avro({"type": "array", "items": "null"}), b"\xd0\x0f\0") == [None] * 1000


def test_a_recursive_schema_does_not_end_the_interpreter() -> None:
    """fastavro's reader overflows the C stack on this schema."""
    codec = avro(NODE)
    refuse(codec, b"\2" * 200_000 + b"\0", "nests more than 100 levels")
    assert decode(codec, b"\2\2\0") == {"next": {"Node": {"next": {"Node": {"next": None}}}}}
    decode(codec, b"\2" * (MOST_LEVELS - 1) + b"\0")


def test_records_that_double_at_each_level_are_refused() -> None:
    """Thirty records without a byte of data would be a billion values."""
    fields = [{"name": "a", "type": "null"}, {"name": "b", "type": "null"}]
    inner: Any = {"type": "record", "name": "R0", "fields": fields}
    for number in range(1, 30):
        first = {"name": "a", "type": inner}
        inner = {
            "type": "record",
            "name": f"R{number}",
            "fields": [first, {"name": "b", "type": f"R{number - 1}"}],
        }
    refuse(avro(inner), b"", "more items")
    named: dict[str, Any] = {}
    assert not is_bounded(fastavro.parse_schema(inner, named_schemas=named), named)


def test_a_reader_may_ask_for_fewer_items() -> None:
    codec = avro({"type": "array", "items": "int"})
    payload = b"\xa0\x1f" + b"\2" * 2000 + b"\0"
    assert len(decode(codec, payload)) == 2000
    refuse(codec, payload, "more items", most_items=1000)


@pytest.mark.parametrize(
    "payload", [b"", b"\xff" * 100_000, b"\x02", b"\xff\xff\xff\xff\x0fabc", b"\x02a\x00"]
)
def test_broken_texts_are_one_sentence(payload: bytes) -> None:
    refuse(avro("string"), payload, "The bytes do not fit their schema: [a-z ]+[.]")


@pytest.mark.parametrize(
    ("schema", "bounded"),
    [
        ("string", True),
        ({"type": "array", "items": "int"}, True),
        ({"type": "array", "items": ["null", "int"]}, True),
        ({"type": "map", "values": "null"}, True),
        ({"type": "array", "items": "null"}, False),
        ({"type": "array", "items": EMPTY}, False),
        (NODE, False),
        ({"type": "record", "name": "R", "fields": [{"name": "x", "type": {"type": "array", "items": NODE}}]}, False),
    ],
)  # fmt: skip
def test_schemas_that_need_no_guard_are_known(schema: Any, bounded: bool) -> None:
    named: dict[str, Any] = {}
    assert is_bounded(fastavro.parse_schema(schema, named_schemas=named), named) is bounded


_SCHEMA = {
    "type": "record",
    "name": "org.R",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "l", "type": "long"},
        {"name": "d", "type": "double"},
        {"name": "s", "type": "string"},
        {"name": "b", "type": "bytes"},
        {"name": "t", "type": "boolean"},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "u", "type": ["null", "string", "long", "E"]},
        {"name": "a", "type": {"type": "array", "items": ["null", "int"]}},
        {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
    ],
}


@given(
    st.fixed_dictionaries(
        {
            "i": st.integers(-(2**31), 2**31 - 1),
            "l": st.integers(-(2**63), 2**63 - 1),
            "d": st.floats(allow_nan=False),
            "s": st.text(),
            "b": st.binary(),
            "t": st.booleans(),
            "e": st.sampled_from("AB"),
            "f": st.binary(min_size=2, max_size=2),
            "u": st.none() | st.integers(0, 2**40),
            "a": st.lists(st.none() | st.integers(0, 100)),
            "m": st.dictionaries(st.text(), st.lists(st.text())),
        }
    )
)
def test_values_are_those_of_fastavro(record: dict[str, Any]) -> None:
    named: dict[str, Any] = {}
    parsed = fastavro.parse_schema(_SCHEMA, named_schemas=named)
    out, expected = io.BytesIO(), io.StringIO()
    fastavro.schemaless_writer(out, parsed, record)
    fastavro.json_writer(expected, parsed, [record])
    assert AvroDecoder(parsed, named).decode(out.getvalue()) == json.loads(expected.getvalue())


# -- JSON and Protobuf --


def json_schema() -> Codec:
    return codec_of(Schema("{}", "JSON"), {}, lambda _: "")


def test_json_nests_as_deep_as_code_can_follow() -> None:
    deep = b"[" * 900 + b"]" * 900
    refuse(json_schema(), deep, "nests more than 200 levels")
    refuse(json_schema(), b"[" * 100_000 + b"]" * 100_000, "The bytes do not fit their schema")
    fine = b"[" * MOST_JSON_LEVELS + b"]" * MOST_JSON_LEVELS
    assert json.dumps(decode(json_schema(), fine)).encode() == fine


@pytest.mark.parametrize("make", [json_schema, lambda: avro(NODE)])
def test_json_that_nests_too_deep_is_not_written(make: Callable[[], Codec]) -> None:
    value: Any = {"next": None}
    for _ in range(400):
        value = {"next": {"Node": value}}
    with pytest.raises(BadData, match="nests more than 200 levels"):
        encode(make(), value, 1)


def protobuf(fields: int) -> Codec:
    """Return message Outer { repeated Inner inner = 1; } with an Inner of N fields."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="t.proto", syntax="proto3")
    outer, inner = file.message_type.add(name="Outer"), file.message_type.add(name="Inner")
    outer.field.add(name="inner", number=1, label=3, type=11, type_name=".Inner")
    for number in range(1, fields + 1):
        inner.field.add(name=f"f{number}", number=number, label=1, type=5)
    text = base64.b64encode(file.SerializeToString()).decode()
    return codec_of(Schema("", "PROTOBUF"), {}, lambda _: text)


def test_fields_that_are_not_set_are_shown_within_reason() -> None:
    codec = protobuf(1000)
    refuse(codec, b"\0" + b"\x0a\0" * 100_000, "more fields")
    assert len(decode(codec, b"\0\x0a\0")["inner"][0]) == 1000
    refuse(protobuf(2), b"\0" + b"\x0a\0" * 1000, "more fields", most_items=500)


@pytest.mark.parametrize(
    "start", [b"\xff" * 500_000, b"\xfe\xff\xff\xff\x0f" + b"\2" * 500_000, b"\2\1", b"\x0f", b""]
)
def test_message_indexes_that_are_none_are_refused(start: bytes) -> None:
    refuse(protobuf(1), start, "The bytes do not fit their schema")
