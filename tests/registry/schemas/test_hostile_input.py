"""Malicious schemas are refused or accepted quickly; none hangs or crashes the process."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.registry.schemas import InvalidSchema, ParsedSchema, check, parse

DEEP = 10_000
# Every case is fast; the limit allows for a busy machine.
pytestmark = pytest.mark.timeout(60)


def nested(before: str, inside: str, after: str, levels: int = DEEP) -> str:
    return before * levels + inside + after * levels


def messages(levels: int) -> str:
    return 'syntax = "proto3";' + nested("message M {", "", "}", levels)


REFUSED: dict[str, tuple[str, str]] = {
    "Avro: brackets": ("AVRO", "[" * 1_000_000),
    "Avro: deep arrays": ("AVRO", nested('{"type":"array","items":', '"int"', "}")),
    "Avro: deep unions": ("AVRO", nested("[", '"int"', "]")),
    "Avro: deep records": (
        "AVRO",
        nested('{"type":"record","name":"R","fields":[{"name":"a","type":', '"int"', "}]}"),
    ),
    "Avro: deep properties": ("AVRO", '{"type":"int","p":' + nested("[", "", "]") + "}"),
    "Avro: deep defaults": (
        "AVRO",
        '{"type":"record","name":"R","fields":[{"name":"a","type":"R","default":'
        + nested('{"a":', "{}", "}")
        + "}]}",
    ),
    "Avro: a default that needs itself": (
        "AVRO",
        '{"type":"record","name":"R","fields":[{"name":"a","type":["R","null"],"default":{}}]}'.replace(
            ',"null"', ""
        ),
    ),
    "Avro: types used before they are defined, one inside the other": (
        "AVRO",
        json.dumps(
            [
                {"type": "record", "name": f"R{index}", "fields": [{"name": "n", "type": f"R{index + 1}"}]}
                for index in range(2000)
            ]
            + [{"type": "fixed", "name": "R2000", "size": 1}]
        ),
    ),
    "Avro: a lone surrogate": ("AVRO", '"\\ud800"'),
    "Avro: a null byte": ("AVRO", "\x00"),
    "Avro: a number without end": ("AVRO", '{"type":"fixed","name":"F","size":' + "9" * 10_000 + "}"),
    "Avro: not a number": ("AVRO", '{"type":"int","p":NaN}'),
    "JSON: brackets": ("JSON", "[" * 1_000_000),
    "JSON: deep not": ("JSON", nested('{"not":', "{}", "}")),
    "JSON: deep properties": ("JSON", nested('{"properties":{"a":', "{}", "}}")),
    "JSON: deep enum": ("JSON", '{"enum":[' + nested("[", "", "]") + "]}"),
    "JSON: a reference to nowhere": ("JSON", '{"$ref":"#/definitions/a/b/c"}'),
    "JSON: a reference to another machine": ("JSON", '{"$ref":"http://127.0.0.1:1/schema.json"}'),
    "JSON: a reference to a file": ("JSON", '{"$ref":"file:///etc/passwd"}'),
    "JSON: a reference to a text": ("JSON", '{"$ref":"#/title","title":"x"}'),
    "JSON: a broken URI": ("JSON", '{"$ref":"http://[::1"}'),
    "JSON: a broken pattern": ("JSON", '{"pattern":"(((("}'),
    "JSON: a broken type": ("JSON", '{"type":{"a":1}}'),
    "JSON: a number": ("JSON", "12"),
    "Protobuf: deep messages": ("PROTOBUF", messages(DEEP)),
    "Protobuf: deep groups": (
        "PROTOBUF",
        'syntax = "proto2"; message M {' + nested("optional group G = 1 {", "", "}"),
    ),
    "Protobuf: deep options": (
        "PROTOBUF",
        'syntax = "proto3"; option (a) = ' + nested("{a:", "1", "}") + ";",
    ),
    "Protobuf: open braces": ("PROTOBUF", "{" * 1_000_000),
    "Protobuf: a comment without end": ("PROTOBUF", "/*" * 500_000),
    "Protobuf: a string without end": ("PROTOBUF", 'syntax = "' + "a" * 1_000_000),
    "Protobuf: a number without end": (
        "PROTOBUF",
        'syntax = "proto3"; message M { int32 a = ' + "9" * 100_000 + "; }",
    ),
    "Protobuf: a hexadecimal number without end": (
        "PROTOBUF",
        'syntax = "proto3"; enum E { A = 0x' + "f" * 100_000 + "; }",
    ),
    "Protobuf: an option without end": ("PROTOBUF", 'syntax = "proto3"; option (a) = ' + "9" * 100_000 + ";"),
    "Protobuf: a null byte": ("PROTOBUF", "\x00"),
    "Protobuf: base64 without end": ("PROTOBUF", "A" * 1_000_001),
}


@pytest.mark.parametrize(("schema_type", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_it_is_refused_in_a_sentence(schema_type: str, text: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        parse(schema_type, text, {})

    assert 0 < len(str(refused.value)) < 1000


def twice(text: tuple[str, str]) -> tuple[ParsedSchema, ParsedSchema]:
    return parse(*text, {}), parse(*text, {})


TAKEN: dict[str, tuple[str, str]] = {
    "Avro: a hundred levels": (
        "AVRO",
        "".join(f'{{"type":"record","name":"R{index}","fields":[{{"name":"a","type":' for index in range(100))
        + '"int"'
        + "}]}" * 100,
    ),
    "Avro: three thousand fields": (
        "AVRO",
        json.dumps(
            {
                "type": "record",
                "name": "R",
                "fields": [
                    {"name": f"f{index}", "type": ["null", "string"], "default": None}
                    for index in range(3000)
                ],
            }
        ),
    ),
    "Avro: ten thousand symbols": (
        "AVRO",
        json.dumps({"type": "enum", "name": "E", "symbols": [f"S{index}" for index in range(10_000)]}),
    ),
    "Avro: a megabyte of documentation": (
        "AVRO",
        json.dumps({"type": "record", "name": "R", "doc": "x" * 1_000_000, "fields": []}),
    ),
    "JSON: a thousand definitions, each twice in the one before": (
        "JSON",
        json.dumps(
            {
                "$ref": "#/definitions/a0",
                "definitions": {
                    **{
                        f"a{index}": {"allOf": [{"$ref": f"#/definitions/a{index + 1}"}] * 2}
                        for index in range(1000)
                    },
                    "a1000": {"type": "string"},
                },
            }
        ),
    ),
    "JSON: a chain of two thousand definitions": (
        "JSON",
        json.dumps(
            {
                "$ref": "#/definitions/a0",
                "definitions": {
                    **{
                        f"a{index}": {"properties": {"n": {"$ref": f"#/definitions/a{index + 1}"}}}
                        for index in range(2000)
                    },
                    "a2000": {"type": "string"},
                },
            }
        ),
    ),
    "JSON: a circle": (
        "JSON",
        '{"$ref":"#/definitions/a","definitions":{"a":{"$ref":"#/definitions/b"},"b":{"$ref":"#/definitions/a"}}}',
    ),
    "JSON: a circle of allOf": ("JSON", '{"allOf":[{"$ref":"#"},{"type":"string"}]}'),
    "JSON: a circle of not": ("JSON", '{"not":{"$ref":"#"}}'),
    "JSON: a pattern that takes for ever": (
        "JSON",
        json.dumps(
            {
                "patternProperties": {"^(a+)+$": {"type": "string"}},
                "properties": {"a" * 50 + "!": {"type": "string"}},
            }
        ),
    ),
    "JSON: two thousand properties": (
        "JSON",
        json.dumps(
            {"type": "object", "properties": {f"p{index}": {"type": "string"} for index in range(2000)}}
        ),
    ),
    **{
        f"JSON: {keyword} as deep as it may be": (
            "JSON",
            nested(before, '{"const":1.5e300}', after, 340 // before.count("{") // (1 + before.count("["))),
        )
        for keyword, before, after in (
            ("not", '{"not":', "}"),
            ("items", '{"items":', "}"),
            ("allOf", '{"allOf":[', "]}"),
            ("anyOf", '{"type":"object","anyOf":[', "]}"),
            ("oneOf", '{"oneOf":[{"type":"null"},', "]}"),
            ("properties", '{"properties":{"a":', "}}"),
            ("if", '{"then":{},"if":', "}"),
            ("enum", '{"const":[', "]}"),
        )
    },
    "Avro: arrays as deep as they may be": (
        "AVRO",
        nested('{"type":"array","p":1.5e300,"items":', '"int"', "}", 340),
    ),
    "Avro: properties as deep as they may be": (
        "AVRO",
        '{"type":"int","p":' + nested("[", "1.5e300", "]", 340) + "}",
    ),
    "Protobuf: thirty levels": ("PROTOBUF", messages(30)),
    "Protobuf: three thousand fields": (
        "PROTOBUF",
        'syntax = "proto3"; message M {'
        + "".join(f"int32 f{index} = {index};" for index in range(1, 3001))
        + "}",
    ),
    "Protobuf: two thousand messages": (
        "PROTOBUF",
        'syntax = "proto3";'
        + "".join(f"message M{index} {{ M{index + 1} n = 1; }}" for index in range(2000))
        + "message M2000 {}",
    ),
}


@pytest.mark.parametrize("text", TAKEN.values(), ids=TAKEN.keys())
def test_it_is_taken_compared_and_printed(text: tuple[str, str]) -> None:
    one, other = twice(text)

    assert not check(one, other)
    assert one.canonical == other.canonical
    assert parse(text[0], one.normalized, {}).normalized == one.normalized


def test_combinations_that_are_too_many_to_compare_are_called_incompatible() -> None:
    def mixed(size: int) -> ParsedSchema:
        branches = [{"type": "string", "maxLength": index + size} for index in range(300)]
        return parse("JSON", json.dumps({"anyOf": branches}), {})

    (found,) = check(mixed(1), mixed(2))
    assert found.type in ("TOO_COMPLEX", "COMBINED_TYPE_SUBSCHEMAS_CHANGED")


@settings(max_examples=150)
@given(st.sampled_from(("AVRO", "JSON", "PROTOBUF")), st.text(max_size=60))
def test_any_text_is_a_schema_or_refused(schema_type: str, text: str) -> None:
    try:
        schema = parse(schema_type, text, {})
    except InvalidSchema:
        return
    assert parse(schema_type, schema.canonical, {}).canonical == schema.canonical


JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(("record", "enum", "int", "object", "#", ""))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ("type", "name", "fields", "items", "symbols", "size", "values", "$ref", "properties", "allOf", "enum",
                 "$id", "id", "required", "dependencies", "additionalProperties", "patternProperties", "default",
                 "aliases", "namespace", "doc", "order", "not", "definitions", "$schema")
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=150)
@given(st.sampled_from(("AVRO", "JSON")), JSON_VALUES)
def test_any_json_is_a_schema_that_reads_itself_or_refused(schema_type: str, value: object) -> None:
    try:
        one, other = twice((schema_type, json.dumps(value)))
    except InvalidSchema:
        return

    assert not check(one, other)


WORDS = ("message", "enum", "M", "{", "}", "int32", "a", "=", "1", ";", "oneof", "repeated", "optional", "map", "<", ">", ",",
         "string", "syntax", '"proto3"', "import", "option", "(", ")", "[", "]", "reserved", "to", "max", "-", ".", "extend",
         "service", "rpc", "returns", "group", "package", "extensions", "0", '"a"', "true", "default")  # fmt: skip


@settings(max_examples=150)
@given(st.lists(st.sampled_from(WORDS), max_size=40))
def test_any_words_are_a_file_or_refused(words: list[str]) -> None:
    try:
        schema = parse("PROTOBUF", " ".join(words), {})
    except InvalidSchema:
        return

    assert parse("PROTOBUF", schema.canonical, {}).canonical == schema.canonical
