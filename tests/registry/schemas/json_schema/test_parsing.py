from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.registry.schemas import InvalidSchema, check, parse
from tests.registry.schemas.json_schema.cases import D4, D6, D7, D2019, D2020, INTEGER, STRING, open_

DRAFTS = {"none": None, "4": D4, "6": D6, "7": D7, "2019-09": D2019, "2020-12": D2020}


def written(schema: Any, draft: str | None) -> str:
    return json.dumps(schema if draft is None else {"$schema": draft, **schema})


@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS.keys())
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "foo"}, {"type": 1}, {"type": ["string", "foo"]}, {"properties": []}, {"properties": {"a": 1}},
        {"required": "a"}, {"required": [1]}, {"minLength": -1}, {"maxItems": "3"}, {"multipleOf": 0}, {"pattern": 3},
        {"pattern": "("}, {"patternProperties": {"(": {}}}, {"allOf": []}, {"anyOf": {}}, {"not": 3}, {"enum": 3},
        {"items": 3}, {"minimum": "a"}, {"title": 3}, {"uniqueItems": 3}, {"$ref": "#/nowhere"}, {"$ref": "no.json"},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_a_schema_that_its_meta_schema_refuses_is_refused(schema: Any, draft: str | None) -> None:
    with pytest.raises(InvalidSchema):
        parse("JSON", written(schema, draft), {})


@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS.keys())
@pytest.mark.parametrize(
    "schema",
    [
        {}, {"type": "string", "maxLength": 3}, open_("a", a=STRING), {"type": ["string", "null"]}, {"anyOf": [STRING]},
        {"x-unknown": {"type": "foo"}}, {"properties": {"$ref": STRING, "type": STRING, "enum": STRING}},
        {"definitions": {"a": {"$ref": "#"}}}, {"enum": [{"$ref": "#/nowhere"}]}, {"default": {"$ref": "#/nowhere"}},
        {"patternProperties": {"^(?=a)b": {}}}, {"$ref": "#/x/y", "x": {"y": STRING}},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_a_valid_schema_is_stored_as_it_is_without_white_space(schema: Any, draft: str | None) -> None:
    text = written(schema, draft)

    parsed = parse("JSON", json.dumps(json.loads(text), indent=4), {})

    assert parsed.canonical == json.dumps(json.loads(text), separators=(",", ":"))
    assert parsed.raw == json.loads(text)
    assert not check(parsed, parse("JSON", parsed.canonical, {}))


def test_keywords_have_the_meaning_of_their_draft() -> None:
    parse("JSON", json.dumps({"$schema": D4, "maximum": 3, "exclusiveMaximum": True}), {})
    parse("JSON", json.dumps({"$schema": D6, "exclusiveMaximum": 3}), {})
    with pytest.raises(InvalidSchema):
        parse("JSON", json.dumps({"$schema": D4, "exclusiveMaximum": 3}), {})
    with pytest.raises(InvalidSchema):
        parse("JSON", json.dumps({"$schema": D7, "exclusiveMaximum": True}), {})
    with pytest.raises(InvalidSchema):
        parse("JSON", json.dumps({"$schema": D2020, "items": [STRING]}), {})


def test_a_schema_of_an_unknown_draft_is_one_of_draft_7() -> None:
    assert (
        parse("JSON", json.dumps({"$schema": "https://example.com/mine", "type": "string"}), {}).raw["type"]
        == "string"
    )
    with pytest.raises(InvalidSchema):
        parse("JSON", json.dumps({"$schema": "https://example.com/mine", "type": "foo"}), {})


def test_the_place_of_the_mistake_is_named() -> None:
    with pytest.raises(InvalidSchema, match=r'at #/properties/a/type: "foo" is not valid'):
        parse("JSON", '{"properties":{"a":{"type":"foo"}}}', {})


def test_order_of_keywords_and_large_numbers_are_kept() -> None:
    text = '{"type":"number","maximum":12345678901234567890123,"minimum":-0.5,"title":"é\\u0001"}'

    assert parse("JSON", text, {}).canonical == text


def test_schemas_that_differ_in_the_order_of_keywords_have_one_normal_form() -> None:
    one, other = (
        '{"type":"object","properties":{"b":{},"a":{}}}',
        '{"properties":{"a":{},"b":{}},"type":"object"}',
    )

    assert parse("JSON", one, {}).canonical != parse("JSON", other, {}).canonical
    assert parse("JSON", one, {}).normalized == parse("JSON", other, {}).normalized


@pytest.mark.parametrize(
    ("name", "ref"),
    [
        ("other.json", "other.json"),
        ("other.json", "other.json#/definitions/d"),
        ("http://a.example/x/other.json", "http://a.example/x/other.json#/definitions/d"),
        ("whatever", "http://own.example/id.json"),
        ("whatever", "http://own.example/id.json#named"),
        ("other.json", "other.json#named"),
    ],
)
def test_references_are_found_by_their_name_or_their_id(name: str, ref: str) -> None:
    def referring(definition: Any) -> Any:
        whole = {
            "$id": "http://own.example/id.json",
            **open_(d={"$ref": "#/definitions/d"}),
            "definitions": {"d": {"$id": "#named", **definition}},
        }
        other = parse("JSON", json.dumps(whole), {})
        return parse("JSON", json.dumps(open_(r={"$ref": ref})), {name: other})

    assert not check(referring(STRING), referring(STRING))
    (found,) = check(referring(STRING), referring(INTEGER))
    assert found.type == "TYPE_CHANGED"


def test_a_reference_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="the reference a is of type AVRO, not JSON"):
        parse("JSON", "{}", {"a": parse("AVRO", '"int"', {})})
    with pytest.raises(InvalidSchema, match="the reference a is of type JSON, not AVRO"):
        parse("AVRO", '"int"', {"a": parse("JSON", "{}", {})})
    with pytest.raises(InvalidSchema, match="the reference a is of type JSON, not PROTOBUF"):
        parse("PROTOBUF", 'syntax = "proto3";', {"a": parse("JSON", "{}", {})})


def test_a_schema_of_another_type_is_not_compatible() -> None:
    (found,) = check(parse("JSON", '{"type":"integer"}', {}), parse("AVRO", '"int"', {}))

    assert found.description == "The type of the schema has changed: new JSON, old AVRO"


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="unknown schema type XML: it is one of AVRO, JSON, PROTOBUF"):
        parse("XML", "<a/>", {})


@pytest.mark.parametrize(
    "uri",
    ["http://json-schema.org/draft-07/shema#", "https://json-schema.org/draft/2020-21/schema", "draft-07"],
)
def test_an_unknown_draft_is_refused(uri: str) -> None:
    text = json.dumps({"$schema": uri, "type": "object"})
    with pytest.raises(
        InvalidSchema, match=r"\$schema .* is unknown: use one of http://json-schema.org/draft-04"
    ):
        parse("JSON", text, {})
    parse("JSON", text, {}, stored=True)
