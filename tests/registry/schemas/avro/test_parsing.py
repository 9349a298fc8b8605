"""Schemas that Java's parser accepts, and its output. The texts on the right are Java's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.registry.schemas import InvalidSchema, parse
from tests.registry.schemas.avro.cases import array, enum, field, fixed, map_, record

PRINTED = [
    ('"string"', '"string"'),
    (' "int" ', '"int"'),
    ('{"type": "string"}', '"string"'),
    ('{"type":"string","logicalType":"uuid"}', '{"type":"string","logicalType":"uuid"}'),
    ('{"type":"string","doc":"x","avro.java.string":"String"}', '{"type":"string","avro.java.string":"String"}'),
    ("[]", "[]"),
    ('["null", {"type":"int"}]', '["null","int"]'),
    ('/* a comment */ {"type": "int"}', '"int"'),
    ('{"items":"int","type":"array"}', '{"type":"array","items":"int"}'),
    ('{"type":"array","items":"int","p":{"z":1,"a":2}}', '{"type":"array","items":"int","p":{"z":1,"a":2}}'),
    ('{"type":"map","values":["null","int"],"default":{}}', '{"type":"map","values":["null","int"],"default":{}}'),
    ('{"name":"E","type":"enum","symbols":[]}', '{"type":"enum","name":"E","symbols":[]}'),
    (
        '{"type":"enum","name":"E","aliases":["X","y.Z"],"p":1,"symbols":["A"],"default":"A","doc":"d"}',
        '{"type":"enum","name":"E","doc":"d","symbols":["A"],"default":"A","p":1,"aliases":["X","y.Z"]}',
    ),
    ('{"type":"enum","name":"E","symbols":["A"],"default":1}', '{"type":"enum","name":"E","symbols":["A"]}'),
    (
        '{"type":"fixed","name":"F","size":3,"doc":"x","aliases":["A"],"logicalType":"decimal","precision":4}',
        '{"type":"fixed","name":"F","doc":"x","size":3,"logicalType":"decimal","precision":4,"aliases":["A"]}',
    ),
    ('{"type":"fixed","name":"a.b.F","size":3}', '{"type":"fixed","name":"F","namespace":"a.b","size":3}'),
    ('{"type":"fixed","name":"F","namespace":"","size":3}', '{"type":"fixed","name":"F","size":3}'),
    ('{"type":"fixed","name":"F","namespace":3,"size":3}', '{"type":"fixed","name":"F","size":3}'),
    ('{"type":"fixed","name":"é","size":3}', '{"type":"fixed","name":"é","size":3}'),
    ('{"type":"fixed","name":"a.int","size":3}', '{"type":"fixed","name":"int","namespace":"a","size":3}'),
    ('{"type":"error","name":"R","fields":[]}', '{"type":"error","name":"R","fields":[]}'),
    ('{"type":"record","name":"R","doc":3,"fields":[]}', '{"type":"record","name":"R","fields":[]}'),
    (
        '{"name":"R","type":"record","doc":"D","fields":[],"aliases":["B","x.C"],"z":[1,{"b":1,"a":2}],"namespace":"n.s"}',
        '{"type":"record","name":"R","namespace":"n.s","doc":"D","fields":[],"z":[1,{"b":1,"a":2}],"aliases":["B","x.C"]}',
    ),
    (
        '{"type":"record","name":"R","fields":[],"a":1.5e300,"b":1e2,"c":0.0001,"d":123456789.125,"e":"\\u001f\\/é"}',
        '{"type":"record","name":"R","fields":[],"a":1.5E300,"b":100.0,"c":1.0E-4,"d":1.23456789125E8,"e":"\\u001F/é"}',
    ),
    (
        '{"type":"record","name":"R","fields":[{"type":"int","name":"a","extra":{"k":[1]},"default":3,"aliases":["b"],'
        '"doc":"q","order":"DESCENDING"}]}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int","doc":"q","default":3,"order":"descending",'
        '"aliases":["b"],"extra":{"k":[1]}}]}',
    ),
    (
        '{"type":"record","name":"R","fields":[{"name":"a","type":"float","default":"NaN"}]}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"float","default":"NaN"}]}',
    ),
    (
        '{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":"1.5"}]}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":1.5}]}',
    ),
    # A type in the same namespace is named without it, and defined at its first use.
    (
        '{"type":"record","name":"n.R","fields":[{"name":"a","type":"n.R"}]}',
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"R"}]}',
    ),
    (
        '{"type":"record","name":"n.R","fields":[{"name":"a","type":{"type":"fixed","name":"m.F","size":1}},'
        '{"name":"b","type":"m.F"}]}',
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":{"type":"fixed","name":"F",'
        '"namespace":"m","size":1}},{"name":"b","type":"m.F"}]}',
    ),
    (
        '{"type":"record","name":"R","fields":[{"name":"a","type":"B"},{"name":"b","type":{"type":"fixed","name":"B",'
        '"size":2}}]}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"fixed","name":"B","size":2}},{"name":"b",'
        '"type":"B"}]}',
    ),
    (
        '{"type":"record","name":"n.R","fields":[{"name":"b","type":{"type":"record","name":"m.B","fields":[{"name":"x",'
        '"type":{"type":"record","name":"C","fields":[{"name":"y","type":"B"}]}}]}},{"name":"c","type":"m.C"}]}',
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"b","type":{"type":"record","name":"B",'
        '"namespace":"m","fields":[{"name":"x","type":{"type":"record","name":"C","fields":[{"name":"y","type":"B"}]}}]}},'
        '{"name":"c","type":"m.C"}]}',
    ),
]  # fmt: skip

REFUSED: dict[str, str] = {
    "no JSON": "string",
    "an unknown type": '"foo"',
    "no type": "{}",
    "a number": "1",
    "null": "null",
    "a comma too many": '{"type":"int",}',
    "text after the end": '{"type":"int"} x',
    "an empty name": '""',
    "capitals": '{"type":"INT"}',
    "the same branch twice": '["int","int"]',
    "a union in a union": '[["int"]]',
    "a type in a type": '{"type":{"type":"string"}}',
    "a union as type": '{"type":["null","int"]}',
    "a symbol twice": json.dumps(enum("A", "A")),
    "a symbol that is no name": json.dumps(enum("A-B")),
    "a symbol that is a number": '{"type":"enum","name":"E","symbols":[1]}',
    "symbols that are no list": '{"type":"enum","name":"E","symbols":"A"}',
    "no symbols": '{"type":"enum","name":"E"}',
    "a default that is no symbol": json.dumps(enum("A", default="B")),
    "a negative size": json.dumps(fixed(-1)),
    "a size as text": '{"type":"fixed","name":"F","size":"3"}',
    "a size as float": '{"type":"fixed","name":"F","size":3.0}',
    "a size that is too large": json.dumps(fixed(3_000_000_000)),
    "no size": '{"type":"fixed","name":"F"}',
    "a name that begins with a digit": json.dumps(fixed(3, "1F")),
    "no name": '{"type":"fixed","size":3}',
    "an empty name of a type": json.dumps(fixed(3, "")),
    "a namespace with a hyphen": json.dumps(fixed(3, "a-b.F")),
    "an empty part of a namespace": json.dumps(fixed(3, "a..F")),
    "a namespace that begins with a digit": json.dumps(fixed(3, namespace="1-2")),
    "a name with a hyphen": json.dumps(fixed(3, "a.F-")),
    "a name with a dollar": json.dumps(fixed(3, "a$b")),
    "the name of a primitive type": json.dumps(fixed(3, "int")),
    "an alias that is no name": json.dumps(record(aliases=["1-"])),
    "aliases that are no list": json.dumps(record(aliases="x")),
    "aliases that are numbers": json.dumps(record(aliases=[1])),
    "an array without items": '{"type":"array"}',
    "a map without values": '{"type":"map"}',
    "a record without fields": '{"type":"record","name":"R"}',
    "a record without name": '{"type":"record","fields":[]}',
    "fields that are an object": '{"type":"record","name":"R","fields":{}}',
    "a field that is a number": '{"type":"record","name":"R","fields":[1]}',
    "a field twice": json.dumps(record(field("a", "int"), field("a", "int"))),
    "a field with a hyphen": json.dumps(record(field("a-", "int"))),
    "a field with an empty name": json.dumps(record(field("", "int"))),
    "a field without type": json.dumps(record({"name": "a"})),
    "a field without name": json.dumps(record({"type": "int"})),
    "a field of type null": json.dumps(record(field("a", None))),
    "an unknown order": json.dumps(record(field("a", "int", order="x"))),
    "an undefined name": json.dumps(record(field("a", "x.R"))),
    "a type twice": json.dumps(record(field("a", fixed(2)), field("b", fixed(3)))),
    "the record inside itself": json.dumps(record(field("a", record()))),
}

WRONG_DEFAULTS: list[tuple[Any, Any]] = [
    ("int", 1.0), ("int", 2**31), ("int", "1"), ("int", None), ("int", True), ("long", 2**63), ("long", 1.5),
    ("float", "x"), ("boolean", 0), ("null", 0), ("string", 1), ("bytes", 1),
    (array("int"), ["1"]), (array("int"), {}), (map_("int"), {"a": "1"}), (map_("int"), []),
    (["null", "int"], "x"), (enum("A"), 1), (fixed(2), 1),
    (record(field("x", "int"), name="S"), {}), (record(field("x", "int", default=1), name="S"), None),
    ("R", {}), ([], None),
]  # fmt: skip
RIGHT_DEFAULTS: list[tuple[Any, Any]] = [
    ("int", 1), ("int", -(2**31)), ("long", 2**31), ("float", 1), ("float", 1.5), ("double", 10**30), ("boolean", True),
    ("null", None), ("string", "x"), ("bytes", "\u00ff"), (array("int"), [1]), (map_("int"), {"a": 1}),
    (["null", "int"], None), (["null", "int"], 1), (["int", "null"], None), (["null", "string"], "null"),
    (enum("A"), "A"), (enum("A"), "B"), (fixed(2), "ab"),
    (record(field("x", "int"), name="S"), {"x": 1}), (record(field("x", "int", default=1), name="S"), {"y": 1}),
    (["null", "R"], None), ({"type": "int", "logicalType": "date"}, 1),
]  # fmt: skip


@pytest.mark.parametrize(("text", "printed"), PRINTED)
def test_a_schema_is_stored_as_java_prints_it(text: str, printed: str) -> None:
    schema = parse("AVRO", text, {})

    assert schema.canonical == printed
    assert parse("AVRO", printed, {}).canonical == printed


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_what_java_refuses_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse("AVRO", text, {})


@pytest.mark.parametrize(("type_", "default"), WRONG_DEFAULTS)
def test_a_default_that_is_no_value_of_its_type_is_refused(type_: Any, default: Any) -> None:
    with pytest.raises(InvalidSchema, match=r"at /fields/0: the default .* of field a is not a value"):
        parse("AVRO", json.dumps(record(field("a", type_, default=default))), {})


@pytest.mark.parametrize(("type_", "default"), RIGHT_DEFAULTS)
def test_a_default_that_is_a_value_of_its_type_is_kept(type_: Any, default: Any) -> None:
    schema = parse("AVRO", json.dumps(record(field("a", type_, default=default))), {})

    assert json.loads(schema.canonical)["fields"][0]["default"] == default


def test_types_of_references_are_named_and_resolved_on_request() -> None:
    part = parse("AVRO", '{"type":"record","name":"n.P","fields":[{"name":"x","type":"int"}]}', {})
    whole = parse("AVRO", '{"type":"record","name":"n.W","fields":[{"name":"p","type":"P"}]}', {"part": part})
    last = parse("AVRO", '["n.W", "n.P"]', {"whole": whole})

    assert (
        whole.canonical == '{"type":"record","name":"W","namespace":"n","fields":[{"name":"p","type":"P"}]}'
    )
    assert whole.formatted("resolved") == (
        '{"type":"record","name":"W","namespace":"n","fields":[{"name":"p","type":{"type":"record","name":"P",'
        '"fields":[{"name":"x","type":"int"}]}}]}'
    )
    assert last.canonical == '["n.W","n.P"]'
    with pytest.raises(InvalidSchema, match=r"can't redefine: n\.P"):
        parse("AVRO", '{"type":"fixed","name":"n.P","size":1}', {"part": part})


def test_schemas_that_differ_in_the_order_of_attributes_have_one_normal_form() -> None:
    one = '{"type":"record","name":"n.R","z":1,"b":{"d":1,"c":2},"aliases":["Y","X"],"fields":[]}'
    other = (
        '{"b":{"c":2,"d":1},"aliases":["X","Y"],"fields":[],"namespace":"n","name":"R","z":1,"type":"record"}'
    )

    assert parse("AVRO", one, {}).canonical != parse("AVRO", other, {}).canonical
    assert parse("AVRO", one, {}).normalized == parse("AVRO", other, {}).normalized
