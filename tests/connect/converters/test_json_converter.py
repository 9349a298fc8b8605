"""The JSON format equals that of Kafka's JsonConverter, both ways."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pytest

from ottla.connect.converters import load_converter
from ottla.connect.converters.converter import Converter
from ottla.connect.data import logical
from ottla.connect.data.schema import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
    SchemaBuilder,
    SchemaType,
    array,
    mapping,
)
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError


def json_converter(**settings: str) -> Converter:
    config = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    config |= {f"value.converter.{name.replace('_', '.')}": value for name, value in settings.items()}
    return load_converter(config, {}, "value")


PLAIN = {"schemas_enable": "false"}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"b": 1, "a": [True, None]}, b'{"b":1,"a":[true,null]}'),
        (1e7, b"1.0E7"),
        (0.0001, b"1.0E-4"),
        (123456.789, b"123456.789"),
        (float("nan"), b'"NaN"'),
        ('\x1f"ü', '"\\u001F\\"ü"'.encode()),
        (b"\x00\xff", b'"AP8="'),
        ({1: "a"}, b'[[1,"a"]]'),
    ],
)
def test_values_without_a_schema_are_written_as_java_does(value: Any, written: bytes) -> None:
    assert json_converter(**PLAIN).from_connect("t", None, value) == written


def test_the_envelope_has_the_schema_and_then_the_payload() -> None:
    schema = (
        SchemaBuilder("Person", version=3)
        .field("name", STRING)
        .field("nick", Schema(SchemaType.STRING, True, default="none", doc="how friends say"))
        .field("score", FLOAT32)
        .field("tags", array(STRING, optional=True))
        .field("points", mapping(STRING, INT8))
        .build()
    )
    value = Struct(schema, {"name": "Ada", "score": 1.1, "tags": ["x"], "points": {"a": 1}})
    assert json_converter().from_connect("t", schema, value) == (
        b'{"schema":{"type":"struct","fields":[{"type":"string","optional":false,"field":"name"},'
        b'{"type":"string","optional":true,"doc":"how friends say","default":"none","field":"nick"},'
        b'{"type":"float","optional":false,"field":"score"},'
        b'{"type":"array","items":{"type":"string","optional":false},"optional":true,"field":"tags"},'
        b'{"type":"map","keys":{"type":"string","optional":false},"values":{"type":"int8","optional":false},'
        b'"optional":false,"field":"points"}],"optional":false,"name":"Person","version":3},'
        b'"payload":{"name":"Ada","nick":"none","score":1.1,"tags":["x"],"points":{"a":1}}}'
    )


def test_what_was_written_is_read_again() -> None:
    schema = (
        SchemaBuilder("All")
        .field("amount", logical.decimal_schema(2))
        .field("day", logical.DATE_SCHEMA)
        .field("clock", logical.TIME_SCHEMA)
        .field("at", logical.TIMESTAMP_SCHEMA)
        .field("ok", BOOLEAN)
        .field("big", INT64)
        .field("text", OPTIONAL_STRING)
        .build()
    )
    value = Struct(
        schema,
        {
            "amount": decimal.Decimal("-12345678901234567890.10"),
            "day": dt.date(1969, 12, 31),
            "clock": dt.time(23, 59, 59, 999000),
            "at": dt.datetime(2024, 2, 29, 12, 0, 0, 1000, dt.UTC),
            "ok": True,
            "big": -(1 << 63),
            "text": None,
        },
    )
    for settings in ({}, {"decimal_format": "numeric"}):
        converter = json_converter(**settings)
        data = converter.from_connect("t", schema, value)
        for _ in range(2):  # the second time the schema is cached
            assert converter.to_connect("t", data) == (schema, value)


def test_decimals_are_numbers_if_the_config_says_so() -> None:
    schema = logical.decimal_schema(3)
    plain = json_converter(**PLAIN, decimal_format="NUMERIC")
    assert plain.from_connect("t", schema, decimal.Decimal("1.500")) == b"1.500"
    assert json_converter(**PLAIN).from_connect("t", schema, decimal.Decimal("1.500")) == b'"Bdw="'


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (INT32, "x", "Invalid type for INT32: class java.lang.String"),
        (INT8, 128, "Invalid type for INT8: class java.lang.Long"),
        (STRING, None, "Conversion error: null value for field that is required and has no default value"),
        (FLOAT64, True, "Invalid type for FLOAT64: class java.lang.Boolean"),
        (
            None,
            decimal.Decimal(1),
            "Java class class java.math.BigDecimal does not have corresponding schema type.",
        ),
        (
            logical.decimal_schema(1),
            decimal.Decimal("1.25"),
            "Decimal value has mismatching scale for given Decimal schema. "
            "Schema has scale 1, value has scale 2.",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_kafkas_words(schema: Schema, value: Any, message: str) -> None:
    with pytest.raises(DataError) as caught:
        json_converter(**PLAIN).from_connect("t", schema, value)
    assert caught.value.message == message


@pytest.mark.parametrize("data", [b"{", b"nothing", b"\xff", b"[1,]", b"NaN", b"1 2xx"])
def test_what_is_not_json_is_refused(data: bytes) -> None:
    if data == b"1 2xx":  # one value; the rest is ignored
        assert json_converter(**PLAIN).to_connect("t", data) == (None, 1)
        return
    with pytest.raises(DataError, match=r"failed due to serialization error: .* is not JSON \(.+\)\."):
        json_converter(**PLAIN).to_connect("t", data)


def test_a_record_without_an_envelope_is_refused_where_schemas_are_enabled() -> None:
    with pytest.raises(DataError, match='requires "schema" and "payload" fields'):
        json_converter().to_connect("t", b'{"a":1}')


def test_a_tombstone_stays_one() -> None:
    assert json_converter().from_connect("t", None, None) is None
    assert json_converter().to_connect("t", None) == (None, None)


def test_the_schema_may_be_given_in_the_config() -> None:
    converter = json_converter(schema_content='{"type":"int32"}')
    assert converter.to_connect("t", b"5") == (INT32, 5)
