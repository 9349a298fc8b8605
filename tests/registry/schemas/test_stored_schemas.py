"""Schemas stored by another registry are accepted unchanged, if they can be parsed at all."""

from __future__ import annotations

import pytest

from ottla.registry.schemas import InvalidSchema, check, parse

OLD = {
    "a default of another type": (
        "AVRO",
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}',
    ),
    "a default that is missing in a record": (
        "AVRO",
        '{"type":"record","name":"R","fields":[{"name":"a","type":"R","default":{}}]}',
    ),
    "a pattern of Java": ("JSON", '{"type":"string","pattern":"[a-z&&[^x]]++\\\\p{IsLatin}"}'),
    "a reserved number": ("PROTOBUF", 'syntax = "proto3"; message M { reserved 1; int32 a = 1; }'),
    "a reserved name": ("PROTOBUF", 'syntax = "proto3"; message M { reserved "a"; int32 a = 1; }'),
}


@pytest.mark.parametrize(("schema_type", "text"), OLD.values(), ids=OLD.keys())
def test_a_stored_schema_is_read_where_a_new_one_is_refused(schema_type: str, text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(schema_type, text, {})

    stored = parse(schema_type, text, {}, stored=True)

    assert not check(stored, parse(schema_type, stored.canonical, {}, stored=True))


@pytest.mark.parametrize(
    ("schema_type", "text"), [("AVRO", "{"), ("JSON", '{"type":"foo"}'), ("PROTOBUF", "message")]
)
def test_what_cannot_be_read_is_refused_even_so(schema_type: str, text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(schema_type, text, {}, stored=True)
