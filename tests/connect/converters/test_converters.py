"""Selecting a connector's converter, and the errors of the plain converters."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.connect.config.config_def import ConfigError
from ottla.connect.converters import load_converter
from ottla.connect.converters.byte_array import ByteArrayConverter
from ottla.connect.converters.json_converter import JsonConverter
from ottla.connect.converters.simple_header import SimpleHeaderConverter
from ottla.connect.data.schema import INT32, STRING, Schema
from ottla.connect.errors import DataError

KAFKA = "org.apache.kafka.connect."
WORKER = {"value.converter": KAFKA + "json.JsonConverter", "value.converter.schemas.enable": "false"}


def test_without_one_of_its_own_a_connector_gets_the_workers_with_its_settings() -> None:
    # Settings are ignored if the connector does not name the converter class.
    converter = load_converter({"value.converter.schemas.enable": "true"}, WORKER, "value")
    assert converter.from_connect("t", None, {"a": 1}) == b'{"a":1}'


def test_a_connector_that_names_a_class_gets_nothing_of_the_workers_settings() -> None:
    converter = load_converter({"value.converter": KAFKA + "json.JsonConverter"}, WORKER, "value")
    assert converter.from_connect("t", None, 1) == b'{"schema":null,"payload":1}'


@pytest.mark.parametrize("name", [KAFKA + "json.JsonConverter", "JsonConverter", "Json"])
def test_short_names(name: str) -> None:
    assert isinstance(load_converter({"key.converter": name}, {}, "key"), JsonConverter)


def test_headers_have_a_default() -> None:
    assert isinstance(load_converter({}, {}, "header"), SimpleHeaderConverter)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, 'Missing required configuration "key.converter" which has no default value.'),
        ({"key.converter": "no.such.Converter"}, "Class no.such.Converter could not be found."),
        ({"key.converter": "json:JSONDecoder"}, "does not extend Converter"),
        (
            {"key.converter": "Json", "key.converter.schemas.enable": "maybe"},
            "be either true or false",
        ),
        (
            {"key.converter": "String", "key.converter.converter.encoding": "what"},
            "Unsupported encoding what",
        ),
    ],
)
def test_a_converter_that_cannot_be_made_is_refused(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_converter(config, {}, "key")
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("name", "schema", "value", "message"),
    [
        ("ByteArray", STRING, b"x", "Invalid schema type for ByteArrayConverter: STRING"),
        (
            "ByteArray",
            None,
            "x",
            "ByteArrayConverter is not compatible with objects of type class java.lang.String",
        ),
        ("Boolean", None, 1, "BooleanConverter is not compatible with objects of type class java.lang.Long"),
        ("Short", None, 40000, "Failed to serialize to short (was class java.lang.Long): "),
        ("Long", INT32, 5, "Failed to serialize to long (was class java.lang.Integer): "),
        ("Double", None, True, "Failed to serialize to double (was class java.lang.Boolean): "),
    ],
)
def test_values_that_do_not_fit(name: str, schema: Schema | None, value: Any, message: str) -> None:
    with pytest.raises(DataError) as caught:
        load_converter({"value.converter": name}, {}, "value").from_connect("t", schema, value)
    assert caught.value.message == message


@pytest.mark.parametrize(("name", "data"), [("Long", b"123"), ("Boolean", b"\2"), ("Integer", b"")])
def test_bytes_that_do_not_fit(name: str, data: bytes) -> None:
    with pytest.raises(DataError, match="Failed to deserialize"):
        load_converter({"value.converter": name}, {}, "value").to_connect("t", data)


def test_bytes_stay_as_they_are() -> None:
    converter = ByteArrayConverter()
    converter.configure({})
    assert converter.from_connect("t", None, bytearray(b"x")) == b"x"
    assert converter.to_connect("t", b"x")[1] == b"x"
