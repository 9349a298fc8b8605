"""Promise: Kafka's own converters write the same bytes, read the same values, or give the same message."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from typing import Any

import pytest

from ottla.connect.config.config_def import ConfigError
from ottla.connect.converters.loading import converter_class
from ottla.connect.data import logical
from ottla.connect.data.schema import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    OPTIONAL_INT32,
    STRING,
    Schema,
    SchemaBuilder,
    SchemaType,
    array,
    mapping,
)
from ottla.connect.data.struct import Struct
from ottla.connect.errors import ConnectError
from tests.connect.oracle.records import ALL, NESTED, PLAIN, WITH_DEFAULTS, WITH_SCHEMA
from tests.connect.oracle.running import ask, comparable

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

KAFKA = "org.apache.kafka.connect."
JSON = KAFKA + "json.JsonConverter"

# fmt: off
NUMBERS = [0.1, 1e7, 9999999.0, 1e-3, 9.99e-4, 1.5e300, -1e-300, 123456789.125, 5e-324, 100.0, 3.4028235e38, 2.0**63]
TEXTS = ["", "ü€😀", "\x00\x01\x0b\x1f\x7f\u2028", "\"\\/\b\f\n\r\t", "a" * 300]
DOCUMENTED = Schema(SchemaType.STRUCT, True, name="n", version=2, doc="d \"x\"", parameters={"b": "1", "a": "2"},
                    fields=SchemaBuilder().field("x", OPTIONAL_INT32).build().fields)
DEFAULTS = [
    Schema(SchemaType.INT8, True, 5), Schema(SchemaType.STRING, False, "x"), Schema(SchemaType.BYTES, True, b"\x01"),
    Schema(SchemaType.FLOAT32, True, 0.5), Schema(SchemaType.BOOLEAN, True, True),
    logical.decimal_schema(2, optional=True, default=decimal.Decimal("1.00")),
    Schema(SchemaType.ARRAY, True, [1], value_schema=INT32),
]
FROM: list[tuple[Schema | None, Any]] = [
    *((None, each) for each in PLAIN), *WITH_SCHEMA, *((None, each) for each in NUMBERS), *((None, each) for each in TEXTS),
    *((FLOAT64, each) for each in NUMBERS), *((FLOAT32, each) for each in (0.1, 1e10, 1e-5, 3.4028235e38, 1.4e-45, 16777217.0, 0.3)),
    *((STRING, each) for each in TEXTS), *((each, None) for each in DEFAULTS),
    *((schema, value) for schema in (INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING, array(INT8))
      for value in ("x", 5, 1.5, True, b"", [1], {"a": 1}, None)),
    (mapping(INT32, STRING), {1: "a", 2: "b"}), (mapping(STRING, array(INT32, optional=True)), {"a": None}),
    (None, {1: "a"}), (None, {"a": {2: 3}}), (DOCUMENTED, Struct(DOCUMENTED, {"x": 1})), (DOCUMENTED, None),
    (ALL, Struct(WITH_DEFAULTS)), (NESTED, {"a": 1}), (None, Struct(WITH_DEFAULTS)), (None, [None, {"a": []}]),
    (logical.decimal_schema(3), decimal.Decimal("1.5")), (logical.decimal_schema(0), decimal.Decimal(-129)),
    (logical.decimal_schema(-2), decimal.Decimal("1E+2")), (logical.decimal_schema(40), decimal.Decimal("1E-40")),
    (logical.DATE_SCHEMA, dt.datetime(2020, 1, 1, 5)), (logical.TIME_SCHEMA, dt.datetime(2020, 1, 1)), (logical.DATE_SCHEMA, 5),
    (logical.TIMESTAMP_SCHEMA, "x"), (logical.decimal_schema(1), 5),
]


def envelope(schema: Any, payload: Any) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}).encode()


STRUCT = {"type": "struct", "optional": False, "fields": [
    {"type": "int32", "field": "a"}, {"type": "string", "optional": True, "default": "d", "field": "b"}]}
PLAIN_DATA = [
    b"", b" ", b"null", b"true", b"1", b"-0", b"-0.0", b"1.0", b"1e3", b"1E400", b"123456789012345678901234567890",
    b"9223372036854775808", b'"x"', b'"\\u00e9"', "\"é\"".encode(), b'"\xff"', b"[1,2", b"{", b'{"a":1,"a":2}',
    b'{"a":{"b":[1,null,"x",1.5]}}', b"NaN", b"Infinity", b"1 2", b"1,2", b"{} x", b"[] x", b'"a"b', b"01", b"+1", b".5", b"1.",
    b"'a'", b"// c\n1", b"\xef\xbb\xbf1", b"truex", b"nul", b"[1,]", b'{"a":1,}', b"\t1\n", b"0.1", b"1e-7", b"\"a\nb\"", b"tr",
]
TO: list[bytes | None] = [
    None, *PLAIN_DATA, b'{"schema":null,"payload":{"a":1}}', b'{"payload":1}', b'{"schema":{"type":"int32"},"payload":1,"x":2}',
    *(envelope({"type": kind}, value)
      for kind in ("int8", "int16", "int32", "int64", "float", "double", "boolean", "string", "bytes")
      for value in (1, -300, 1 << 40, 1.5, "x", "AQI=", True, None, [1], {"a": 1}, 1e300)),
    envelope({"type": "bytes"}, "A"), envelope({"type": "bytes"}, "A Q I ="), envelope({"type": "bytes"}, ""),
    envelope({"type": "array"}, [1]), envelope({"type": "array", "items": {"type": "int8"}}, [1, 2]),
    envelope({"type": "array", "items": {"type": "int8"}}, 5), envelope({"type": "array", "items": {"type": "int8"}}, [None]),
    envelope({"type": "array", "items": {"type": "int8"}}, {"a": 1}),
    envelope({"type": "map"}, {}), envelope({"type": "map", "keys": {"type": "string"}}, {}),
    envelope({"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}}, {"a": 1}),
    envelope({"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}}, [["a", 1]]),
    envelope({"type": "map", "keys": {"type": "int32"}, "values": {"type": "int32"}}, [[1, 2]]),
    envelope({"type": "map", "keys": {"type": "int32"}, "values": {"type": "int32"}}, {"1": 2}),
    envelope({"type": "map", "keys": {"type": "int32"}, "values": {"type": "int32"}}, [[1, 2, 3]]),
    envelope({"type": "map", "keys": {"type": "int32"}, "values": {"type": "int32"}}, [1]),
    envelope(STRUCT, {"a": 1}), envelope(STRUCT, {"a": 1, "b": None}), envelope(STRUCT, {"b": "x"}), envelope(STRUCT, [1]),
    envelope(STRUCT, {"a": "x", "b": 5, "c": 1}), envelope(STRUCT, None), envelope({"type": "struct"}, {}),
    envelope({"type": "struct", "fields": [{"type": "int32"}]}, {}), envelope({"type": "struct", "fields": [5]}, {}),
    envelope({"type": "struct", "fields": [{"type": "int8", "field": "a"}, {"type": "int8", "field": "a"}]}, {}),
    envelope({"type": "what"}, 1), envelope({}, 1), envelope(5, 1), envelope({"type": 5}, 1),
    envelope({"type": "int32", "optional": "true", "name": 5, "version": 1.5, "doc": None}, None),
    envelope({"type": "int32", "optional": True, "default": 7, "version": 2, "parameters": {"a": "b"}}, None),
    envelope({"type": "int32", "default": "x"}, None), envelope({"type": "int32", "default": None}, 1),
    envelope({"type": "int32", "optional": True, "default": None}, None), envelope({"type": "int32", "parameters": {"a": 1}}, 1),
    envelope({"type": "int32", "parameters": {}}, 1), envelope({"type": "int32", "parameters": 5}, 1),
    *(envelope({"type": kind, "name": f"org.apache.kafka.connect.data.{name}", "version": 1, "parameters": {"scale": "2"}}, value)
      for kind, name in (("int32", "Date"), ("int32", "Time"), ("int64", "Timestamp"), ("bytes", "Decimal"))
      for value in (0, 86400000, 5000, -1, 1.5, "AQI=", "!", None, True, 12345678901, [1])),
    envelope({"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}, "AQ=="),
    envelope({"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "x"}}, "AQ=="),
    b'{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"1"}},"payload":1.10}',
]
HEADERS = [each.encode() for each in (
    "", " ", "x", "1", " 1 ", "-5", "+5", "128", "40000", "3000000000", "9223372036854775808", "1.5", "1.0", "1e3", "1e40", "1e400",
    ".5", "5.", "0x1", "1f", "NaN", "Infinity", "true", "false", "True", "truex", "null", "NULL", "nullx", '"a"', '"a', "'a'", "[", "]",
    "[]", "[1]", "[1,2]", "[1, 2 ]", "[1,300]", "[1,1.5]", "[1,\"a\"]", "[\"a\",\"b\"]", "[null]", "[1,null]", "[true,false]", "[[1],[2]]",
    "[,]", "[1,]", "[1 2]", "[a]", "[1", "1]", "{}", "{1:2}", '{"a":1}', '{"a":1,"b":2}', '{"a":1,"b":"x"}', '{"a":null}', "{a:1}", '{"a"}',
    '{"a":}', '{"a":1,}', '{"a":[1,2]}', '{"a":{"b":1}}', "{", "}", "2020-01-01", "2020-13-01", "2020-1-1", "2020-01-01T", "2020-01-01x",
    "2020-01-01T01:02:03.004Z", "2020-01-01T01:02:03Z", "01:02:03.004Z", "1:2:3.4Z", "25:00:00.000Z", "[2020-01-01]",
    "[2020-01-01T01:02:03.004Z]", "a,b", "a:b", "1,2", "1:2", "a\\b", '"a\\"b"', '["a\\"b"]', '["a\\\\b"]', '["a,b"]', '{"a:b":1}', "é", "\n",
    "a b", "1 2", "true false", "[true ]", "[ true]", '{"a" : 1}', "-", "+", "--1", "1-2", "12345678901234567890.5", "1.23456789012",
    "100.00", "1E5", "[1.5,2]", "[128,1]", "[300,\"x\",1]", '{1:"a",300:"b"}', "{true:1}", "[[1],[\"a\"]]", "[1]x", "[1] x", "{}x", "truex", "true]", "2020-01-01]", "[null,1]", "[null,null]", "[\"a\",null]", "{1:null}", "{1:1,2:null}", "1e20", "1.0e20", "-.5", "5.5.", "[1.5,1e40]", "[1,99999999999999999999]", "[1e400,1]", "[\"\"]", "[true,1]", "[{}]", "[[]]", "[1,[2]]",
)] + [None, b"\xff\xfe"]
# fmt: on

CASES: dict[str, list[tuple[str, dict[str, str], list[tuple[str, Any, Any]]]]] = {
    "JSON": [
        (JSON, config, [("from", *each) for each in FROM] + [("to", None, each) for each in TO])
        for config in (
            {},
            {"schemas.enable": "false"},
            {"decimal.format": "numeric", "schemas.enable": "false"},
            {"decimal.format": "NUMERIC", "replace.null.with.default": "false"},
            {"schemas.enable": "x"},
            {"decimal.format": "x"},
            {"schema.content": '{"type":"int32","optional":true}'},
            {"schema.content": "{"},
            {"schema.content": '{"type":"x"}'},
        )
    ],
    "plain": [
        (
            KAFKA + name,
            config,
            [("from", *each) for each in FROM]
            + [
                ("to", None, each)
                for each in (None, b"", b"\x00", b"\x01", b"\x02", b"\x00" * 4, b"\x7f" * 8)
            ],
        )
        for name, config in (
            ("storage.StringConverter", {}),
            ("storage.StringConverter", {"converter.encoding": "ISO-8859-1"}),
            ("storage.StringConverter", {"converter.encoding": "UTF-16BE"}),
            ("storage.StringConverter", {"converter.encoding": "what"}),
            ("converters.ByteArrayConverter", {}),
            ("converters.BooleanConverter", {}),
            ("converters.ShortConverter", {}),
            ("converters.IntegerConverter", {}),
            ("converters.LongConverter", {}),
            ("converters.FloatConverter", {}),
            ("converters.DoubleConverter", {}),
        )
    ],
    "headers": [
        (
            KAFKA + "storage.SimpleHeaderConverter",
            {},
            [("from", *each) for each in FROM] + [("to", None, each) for each in HEADERS],
        )
    ],
}


def ours(case: tuple[str, dict[str, str], list[tuple[str, Any, Any]]]) -> list[Any]:
    name, config, values = case
    converter = converter_class(name)()
    try:
        converter.configure(config)
    except ConnectError as error:
        return [("error", "", error.message)]
    except ConfigError as error:
        return [("error", "", error.message)]
    answers: list[Any] = []
    for direction, schema, value in values:
        try:
            if direction == "from":
                answers.append(converter.from_connect("t", schema, value))
            else:
                answers.append(converter.to_connect("t", value))
        except ConnectError as error:
            answers.append(("error", "", error.message))
    return answers


@pytest.fixture(scope="module")
def theirs() -> dict[str, list[list[Any]]]:
    given = [(name, case) for name in CASES for case in CASES[name]]
    answers = ask([("convert", case) for _, case in given])
    found: dict[str, list[list[Any]]] = {}
    for (name, _), answer in zip(given, answers, strict=True):
        found.setdefault(name, []).append(answer)
    return found


@pytest.mark.parametrize("name", sorted(CASES))
def test_same_bytes_and_values_or_same_message(name: str, theirs: dict[str, list[list[Any]]]) -> None:
    wrong = differences(name, theirs[name])
    lines = (f"{each}\n   theirs {one}\n   ours   {other}" for each, one, other in wrong[:25])
    assert not wrong, f"{len(wrong)} differ\n" + "\n".join(lines)


def differences(name: str, theirs: list[list[Any]]) -> list[Any]:
    return compared(CASES[name], theirs)


def compared(given_cases: list[Any], theirs: list[list[Any]]) -> list[Any]:
    wrong: list[Any] = []
    for case, expected in zip(given_cases, theirs, strict=True):
        found = ours(case)
        given: list[Any] = case[2] if len(expected) == len(case[2]) else ["configure"]
        if len(found) != len(expected):
            wrong.append(((case[0], case[1], "configure"), expected[0], found[0]))
            continue
        for each, one, other in zip(given, expected, found, strict=True):
            if not same(one, other) and not is_known(case[0], case[1], each):
                wrong.append(((case[0].rpartition(".")[2], case[1], each), one, other))
    return wrong


_PYTHON = dict.fromkeys((SchemaType.FLOAT32, SchemaType.FLOAT64), float) | dict.fromkeys(
    (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64), int
)


def is_known(name: str, config: dict[str, str], case: Any) -> bool:
    """Return True for known differences: Python's numbers have no sizes, and its times end at midnight."""
    direction, schema, value = case
    if direction == "from":
        sized = "Converter" in name and name.startswith(KAFKA + "converters.")
        fits = schema is not None and schema.name is None and isinstance(value, _PYTHON.get(schema.type, ()))
        return (sized and not fits and isinstance(value, int | float)) or b"raw" in repr(value).encode()
    beyond = b"org.apache.kafka.connect.data.Time" in (value or b"") and b"86400000" in value
    return beyond or value == b"25:00:00.000Z" or ("schema.content" in config and value in (b"", b" "))


def same(theirs: Any, ours: Any) -> bool:
    if is_error(ours) and "between the years 1 and 9999" in ours[2]:
        return True  # Python's datetime has no other years
    if is_error(theirs) and is_error(ours):
        message = theirs[2].replace("LinkedHashMap", "HashMap")
        return theirs[1] == "java.lang.NullPointerException" or message == ours[2] or "@" in message
    if isinstance(theirs, bytes) and isinstance(ours, bytes):
        return theirs == ours or b"[B@" in theirs.replace(b"\0", b"")
    return comparable(theirs) == comparable(ours)


def is_error(answer: Any) -> bool:
    return isinstance(answer, tuple) and answer[0] == "error"
