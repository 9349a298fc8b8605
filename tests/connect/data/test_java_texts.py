"""Numbers, dates and regular expressions follow Java's rules."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pytest

from ottla.connect.data import logical
from ottla.connect.data import schema as schemas
from ottla.connect.data.java_dates import BadDate, BadPattern, DateFormat
from ottla.connect.data.java_regex import InvalidPattern, compile_java, replace_all
from ottla.connect.data.java_values import java_double, java_float, wrapped
from ottla.connect.data.schema import Schema, SchemaBuilder
from ottla.connect.data.struct import Struct
from ottla.connect.data.values import parse_string, value_to_string
from ottla.connect.errors import DataError

WHEN = 1709211959123  # 2024-02-29 13:05:59.123, a Thursday


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (1e-3, "0.001"),
        (1.5e-4, "1.5E-4"),
        (5e-324, "4.9E-324"),
        (-123456789.125, "-1.23456789125E8"),
        (float("inf"), "Infinity"),
        (-0.0, "-0.0"),
    ],
)
def test_doubles(value: float, text: str) -> None:
    assert java_double(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (1.1, "1.1"), (16777217.0, "1.6777216E7"), (1.4e-45, "1.4E-45"), (1e39, "Infinity")],
)
def test_floats(value: float, text: str) -> None:
    assert java_float(value) == text


def test_numbers_are_cut_to_their_low_bits() -> None:
    assert [wrapped(each, 8) for each in (127, 128, 255, 256, -129)] == [127, -128, -1, 0, 127]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2024-02-29T13:05:59.123Z"),
        ("EEE, d MMM yy hh:mm a z", "Thu, 29 Feb 24 01:05 PM UTC"),
        ("D", "60"),
        ("''yyyy''", "'2024'"),
        ("u kk K", "4 13 1"),
        ("EEEE MMMM Z", "Thursday February +0000"),
    ],
)
def test_dates_are_written(pattern: str, text: str) -> None:
    assert DateFormat(pattern).format(WHEN) == text


@pytest.mark.parametrize(
    ("pattern", "text", "millis"),
    [
        ("yyyy-MM-dd HH:mm:ss.SSS", "2024-02-29 13:05:59.123", WHEN),
        ("yyyy-MM-dd", "2024-02-30 and more", 1709251200000),
        ("yyyyMMddHHmmss", "20240229130559", 1709211959000),
        ("d MMM yyyy", "29 feb 2024", 1709164800000),
        ("yyyy-MM-dd'T'HH:mmXXX", "2024-02-29T13:05+01:00", 1709208300000),
        ("yyyy-MM-dd z", "2024-02-29 PST", 1709193600000),
        ("hh:mm a", "01:05 PM", 47100000),
        ("HH", "7", 25200000),
        ("yyyy DDD", "2024 060", 1709164800000),
    ],
)
def test_dates_are_read_leniently(pattern: str, text: str, millis: int) -> None:
    assert DateFormat(pattern).parse(text) == millis


@pytest.mark.parametrize(
    ("pattern", "text"), [("yyyy-MM-dd", "29.02.2024"), ("yyyyMM", "2024x2"), ("MMM", "Foo"), ("X", "?")]
)
def test_what_does_not_match_is_refused(pattern: str, text: str) -> None:
    with pytest.raises(BadDate):
        DateFormat(pattern).parse(text)


@pytest.mark.parametrize("pattern", ["b", "'x", "XXXX", "yyyy-MM-ddTHH"])
def test_patterns_that_java_refuses(pattern: str) -> None:
    with pytest.raises(BadPattern):
        DateFormat(pattern)


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("(?<year>\\d{4})-\\k<year>", ["2024-2024"], ["2024-2023"]),
        ("\\Qa.b\\E.", ["a.bx"], ["axbx"]),
        ("[a-z&&[^m-p]]+", ["abc"], ["amc"]),
        ("\\p{Alpha}\\p{Punct}*", ["a!?"], ["1"]),
        ("a(?i)b", ["ab", "aB"], ["AB"]),
        ("[\\d-_]", ["-", "_", "5"], ["a"]),
        ("a++b", ["aab"], ["b"]),
        ("\\x{41}\\u0042\\0103", ["ABC"], ["abc"]),
        ("[a[bc]]", ["a", "c"], ["d"]),
        ("^a$|\\z", ["a", ""], ["b"]),
    ],
)
def test_regular_expressions(pattern: str, matches: list[str], others: list[str]) -> None:
    compiled = compile_java(pattern)
    assert [bool(compiled.fullmatch(each)) for each in matches] == [True] * len(matches)
    assert [bool(compiled.fullmatch(each)) for each in others] == [False] * len(others)


@pytest.mark.parametrize("pattern", ["(", ")", "[", "*", "\\y", "(?z)", "\\p{Nothing}", "\\"])
def test_regular_expressions_that_are_none(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        compile_java(pattern)


def test_replacements() -> None:
    assert replace_all(compile_java("(\\w)(\\d)"), "$2\\$$11", "a1 b2") == "1$a1 2$b1"


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("5", schemas.INT8, 5),
        ("300", schemas.INT16, 300),
        ("1.5", schemas.FLOAT32, 1.5),
        ("true", schemas.BOOLEAN, True),
        ("x", schemas.STRING, "x"),
        ("2024-02-29", logical.DATE_SCHEMA, dt.date(2024, 2, 29)),
        ("null", None, None),
        ("[1,300]", schemas.array(schemas.INT16), [1, 300]),
        ('{"a":1}', schemas.mapping(schemas.STRING, schemas.INT8), {"a": 1}),
    ],
)
def test_headers_are_guessed(text: str, schema: Schema | None, value: Any) -> None:
    assert parse_string(text) == (schema, value)


def test_a_header_of_brackets_only_is_a_text() -> None:
    assert parse_string("[" * 100_000) == (schemas.STRING, "[" * 100_000)


def test_values_as_headers() -> None:
    struct = Struct(SchemaBuilder().field("a", schemas.STRING).build(), {"a": 'x"'})
    assert value_to_string({"k": [1, None, struct, b"x", decimal.Decimal("1.0")]}) == (
        '{"k":[1,null,{"a":"x\\""},"eA==",1.0]}'
    )


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (
            schemas.INT8,
            128,
            'Invalid Java object for schema with type INT8: class java.lang.Long for field: "f"',
        ),
        (schemas.STRING, None, 'Invalid value: null used for required field: "f", schema type: STRING'),
        (
            logical.DATE_SCHEMA,
            5,
            'Invalid Java object for schema "org.apache.kafka.connect.data.Date" with type INT32: '
            'class java.lang.Long for field: "f"',
        ),
        (
            schemas.array(schemas.INT32),
            [1, "x"],
            'Invalid Java object for schema with type INT32: class java.lang.String for element of array field: "f"',
        ),
        (
            schemas.mapping(schemas.STRING, schemas.INT32),
            {1: 1},
            'Invalid Java object for schema with type STRING: class java.lang.Long for key of map field: "f"',
        ),
        (SchemaBuilder("A").build(), Struct(SchemaBuilder("B").build()), "Struct schemas do not match."),
    ],
)
def test_a_struct_takes_only_what_fits(schema: Schema, value: Any, message: str) -> None:
    with pytest.raises(DataError) as caught:
        Struct(SchemaBuilder().field("f", schema).build()).put("f", value)
    assert caught.value.message == message


def test_decimals_keep_all_their_digits() -> None:
    schema = logical.decimal_schema(30)
    value = decimal.Decimal("-12345678901234567890.123456789012345678901234567890")
    assert logical.decimal_from_bytes(schema, logical.decimal_to_bytes(schema, value)) == value
