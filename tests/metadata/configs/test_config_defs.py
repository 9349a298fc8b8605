"""Parsing, rejecting and rendering values like Kafka 4.3, the source of the expected texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.configs.broker_config_table import BROKER_CONFIGS
from ottla.metadata.configs.config_defs import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    INTERNAL,
    LIST,
    LONG,
    NO_EFFECT,
    PASSWORD,
    SHORT,
    STRING,
    ConfigDef,
    ConfigType,
    InvalidValue,
    NoDuplicates,
    OneOf,
    Range,
    UpdateMode,
    Validator,
    Value,
    config_table,
    format_value,
    parse_value,
)
from ottla.metadata.configs.topic_configs import TOPIC_CONFIGS


def definition(type: ConfigType, validator: Validator | None = None) -> ConfigDef:
    return ConfigDef("x", type, None, validator)


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        (BOOLEAN, " TRUE ", True),
        (BOOLEAN, "false", False),
        (INT, "  5 ", 5),
        (INT, "+5", 5),
        (INT, "-2147483648", -(2**31)),
        (INT, "٣", 3),
        (LONG, "9223372036854775807", 2**63 - 1),
        (SHORT, "32767", 32767),
        (DOUBLE, "0.001", 0.001),
        (DOUBLE, ".5", 0.5),
        (DOUBLE, "1e3", 1000.0),
        (DOUBLE, "2d", 2.0),
        (DOUBLE, "Infinity", float("inf")),
        (STRING, " text ", "text"),
        (PASSWORD, " kept as it is ", " kept as it is "),
        (LIST, "a , b,c", ["a", "b", "c"]),
        (LIST, "", []),
        (LIST, "a,", ["a", ""]),
    ],
)
def test_a_text_becomes_a_value(type: ConfigType, text: str, value: Value) -> None:
    parsed = parse_value(definition(type), text)
    assert (parsed, parsed.__class__) == (value, value.__class__)


@pytest.mark.parametrize(
    ("type", "text", "reason"),
    [
        (BOOLEAN, "maybe", "Expected value to be either true or false"),
        (INT, "", "Not a number of type INT"),
        (INT, "1.5", "Not a number of type INT"),
        (INT, "2147483648", "Not a number of type INT"),
        (INT, "1" * 10_000, "Not a number of type INT"),
        (SHORT, "32768", "Not a number of type SHORT"),
        (LONG, "9223372036854775808", "Not a number of type LONG"),
        (LONG, "0x10", "Not a number of type LONG"),
        (LONG, "1_000", "Not a number of type LONG"),
        (LONG, "foo", "Not a number of type LONG"),
        (DOUBLE, "x", "Not a number of type DOUBLE"),
        (DOUBLE, "1_0", "Not a number of type DOUBLE"),
    ],
)
def test_a_text_that_is_none_is_refused_in_kafkas_words(type: ConfigType, text: str, reason: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_value(definition(type), text)
    assert str(caught.value) == f"Invalid value {text} for configuration x: {reason}"


@pytest.mark.parametrize(
    ("type", "validator", "text", "message"),
    [
        (INT, Range(1), "0", "Invalid value 0 for configuration x: Value must be at least 1"),
        (INT, Range(1, 17), "18", "Invalid value 18 for configuration x: Value must be no more than 17"),
        (DOUBLE, Range(0, 1), "2", "Invalid value 2.0 for configuration x: Value must be no more than 1"),
        (
            INT,
            Range(1, 9, also=-1),
            "0",
            "Invalid value 0 for configuration x: Value must be between 1 and 9 or equal to -1",
        ),
        (STRING, OneOf(("a", "b")), "c", "Invalid value c for configuration x: String must be one of: a, b"),
        (
            STRING,
            OneOf(("A", "B"), ignore_case=True),
            "c",
            "Invalid value c for configuration x: String must be one of (case insensitive): A, B",
        ),
        (LIST, OneOf(("a", "b")), "a,c", "Invalid value c for configuration x: String must be one of: a, b"),
        (LIST, OneOf(("a", "b")), "a,", "Configuration 'x' values must not be empty."),
        (LIST, NoDuplicates(), "a,a", "Configuration 'x' values must not be duplicated."),
        (LIST, NoDuplicates(), "a,,b", "Configuration 'x' values must not be empty."),
    ],
)
def test_a_value_out_of_bounds_is_refused_in_kafkas_words(
    type: ConfigType, validator: Validator, text: str, message: str
) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_value(definition(type, validator), text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (7, "7"),
        (0.5, "0.5"),
        (2.0, "2.0"),
        (1e7, "1.0E7"),
        (0.0001, "1.0E-4"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("-inf"), "-Infinity"),
        (["a", "b"], "a,b"),
        ([], ""),
    ],
)
def test_a_value_is_shown_as_java_shows_it(value: Value, text: str | None) -> None:
    assert format_value(value) == text


@given(st.floats(allow_nan=False))
def test_a_number_is_read_as_it_was_shown(value: float) -> None:
    text = format_value(value)
    assert parse_value(definition(DOUBLE), text) == value


@pytest.mark.parametrize(
    ("type", "validator", "expects"),
    [
        (INT, None, "a whole number"),
        (INT, Range(1), "a whole number of at least 1"),
        (DOUBLE, Range(0, 1), "a number from 0 to 1"),
        (INT, Range(1, 9, also=-1), "a whole number from 1 to 9 or -1"),
        (BOOLEAN, None, "true or false"),
        (STRING, OneOf(("a", "b")), "one of a, b"),
    ],
)
def test_a_person_is_told_what_to_give(type: ConfigType, validator: Validator | None, expects: str) -> None:
    assert definition(type, validator).advice("?") == expects


@pytest.mark.parametrize("text", ["99999999999", "-2147483649", "1" * 5000])
def test_a_number_that_is_too_large_is_told_how_large_it_may_be(text: str) -> None:
    assert definition(INT, Range(1)).advice(text) == "a whole number from -2147483648 to 2147483647"


@pytest.mark.parametrize("table", [TOPIC_CONFIGS, BROKER_CONFIGS], ids=["topic", "broker"])
def test_every_default_is_valid_and_shown_as_it_is_written(table: dict[str, ConfigDef]) -> None:
    for name, each in table.items():
        assert each.name == name
        assert format_value(parse_value(each, each.default)) == each.default


@pytest.mark.parametrize("table", [TOPIC_CONFIGS, BROKER_CONFIGS], ids=["topic", "broker"])
def test_every_configuration_is_explained_in_a_sentence(table: dict[str, ConfigDef]) -> None:
    for each in table.values():
        assert each.documentation[0].isupper() or each.documentation.startswith("min.insync"), each.name
        assert each.documentation.endswith("."), each.name


def test_a_row_of_a_table_has_after_its_documentation_what_is_not_usual_about_it() -> None:
    table = config_table(
        [
            ("a.b", INT, "1", Range(0), "Usual."),
            ("c.d", INT, "1", None, "Changed while running.", CLUSTER_WIDE, NO_EFFECT),
            ("e.f", INT, None, None, "For tests.", INTERNAL),
        ]
    )
    usual, changeable, hidden = table["a.b"], table["c.d"], table["e.f"]
    assert (usual.update_mode, usual.has_effect, usual.internal) == (UpdateMode.READ_ONLY, True, False)
    assert (changeable.update_mode, changeable.has_effect) == (CLUSTER_WIDE, False)
    assert (hidden.update_mode, hidden.internal) == (UpdateMode.READ_ONLY, True)
