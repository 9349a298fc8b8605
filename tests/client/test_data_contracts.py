"""Promise: every writer and reader enforces the data contract conditions that need no other engine."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("jsonschema_rs")

from ottla.client.data_contracts import CelError, NotSupported, compile_expression
from ottla.client.schema_codecs import BadData, Codec, codec_of, decode, encode
from ottla.client.schema_registry import AVRO, JSON, Schema

ORDER = {
    "id": 7,
    "name": "it's",
    "price": 2.5,
    "tags": ["a", "b"],
    "place": {"city": "Brno", "zip": None},
    "m": {"k": 1},
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("message.id > 5", True),
        ("message.id >= 8 || message.price < 3.0", True),
        ("!(message.id == 7)", False),
        ("message.id != 7 && message.nothing > 1", False),
        ("message.place.city in ['Brno', 'Graz']", True),
        ("message['id'] + 1 == 8", True),
        ('message.tags[1] == "b"', True),
        ("size(message.tags) == 2 && message.tags.size() < 3", True),
        ("message.name == 'it\\'s'", True),
        ("message.name.startsWith('it') && message.name.endsWith('s') && message.name.contains(\"'\")", True),
        ("message.name.matches('^it.s$')", True),
        ("has(message.place.city) && !has(message.place.zip) && !has(message.gone.deeper)", True),
        ("message.place.zip == null", True),
        ("message.id % 2 == 1 ? message.price * 2.0 == 5.0 : false", True),
        ("-message.id / 2 == -3", True),
        ("message.m['k'] - 1 == 0", True),
        ("true", True),
    ],
)
def test_expressions(expression: str, value: bool) -> None:
    assert compile_expression(expression)({"message": ORDER}) is value


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "message.",
        "message.id >",
        "(message.id",
        "uuid(message.id)",
        "a = 1",
        "message.a.b()",
        "1 2",
        "(" * 450,
        "1 +" * 400,
    ],
)
def test_what_is_not_understood_is_refused_when_it_is_compiled(expression: str) -> None:
    with pytest.raises(NotSupported):
        compile_expression(expression)


@pytest.mark.parametrize(
    "expression",
    ["message.gone > 1", "message.id > 'x'", "message.id && true", "1 / 0 == 1", "'x'.matches('(')"],
)
def test_what_cannot_be_evaluated(expression: str) -> None:
    with pytest.raises(CelError):
        compile_expression(expression)({"message": ORDER})


def test_a_pattern_takes_no_longer_than_its_text() -> None:
    slow = compile_expression("message.text.matches('^(a+)+$')")
    assert slow({"message": {"text": "a" * 5000 + "!"}}) is False


SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "note", "type": ["null", "string"], "default": None}],
}


def codec(*rules: dict[str, Any], kind: str = AVRO) -> Codec:
    text = json.dumps(SCHEMA if kind == AVRO else {"type": "object"})
    return codec_of(Schema(text, kind, rule_set=json.dumps({"domainRules": list(rules)})), {}, lambda _: "")


def rule(expression: str = "message.id > 0", **more: Any) -> dict[str, Any]:
    return {
        "name": "positive",
        "kind": "CONDITION",
        "type": "CEL",
        "mode": "WRITE",
        "expr": expression,
        **more,
    }


GOOD, WRONG = {"id": 1, "note": {"string": "x"}}, {"id": -1, "note": None}


def test_a_record_that_does_not_keep_a_rule_is_not_written() -> None:
    assert encode(codec(rule()), GOOD, 1)[:5] == b"\0\0\0\0\1"
    with pytest.raises(BadData, match="Rule 'positive' of the schema is not kept"):
        encode(codec(rule()), WRONG, 1)
    with pytest.raises(BadData, match="is not kept"):
        encode(codec(rule("message.note == 'y'")), GOOD, 1)
    with pytest.raises(BadData, match="is not kept"):
        encode(codec(rule(), kind=JSON), {"id": 0}, 1)
    with pytest.raises(BadData, match="fails: there is no id"):
        encode(codec(rule(), kind=JSON), {}, 1)


def test_rules_for_reading() -> None:
    written = encode(codec(), WRONG, 1)[5:]
    assert decode(codec(rule()), written) == WRONG
    for mode in ("READ", "WRITEREAD"):
        with pytest.raises(BadData, match="is not kept"):
            decode(codec(rule(mode=mode)), written)
    assert decode(codec(rule(mode="UPGRADE")), written) == WRONG


@pytest.mark.parametrize(
    "more",
    [
        {"disabled": True},
        {"onFailure": "NONE"},
        {"mode": "READ"},
        {"mode": "WRITEREAD", "onFailure": "NONE,ERROR"},
    ],
)
def test_rules_that_do_not_matter(more: dict[str, Any]) -> None:
    assert encode(codec(rule(**more)), WRONG, 1)


@pytest.mark.parametrize(
    "more",
    [{"type": "ENCRYPT", "kind": "TRANSFORM"}, {"type": "CEL_FIELD"}, {"expr": "message.id.isEmail()"}],
)
def test_nothing_is_written_without_a_rule_that_cannot_be_carried_out(more: dict[str, Any]) -> None:
    both = codec(rule(**{"mode": "WRITEREAD", **more}))
    with pytest.raises(BadData, match="Rule 'positive' of the schema cannot be carried out here"):
        encode(both, GOOD, 1)
    assert decode(both, encode(codec(), GOOD, 1)[5:]) == GOOD
    assert encode(codec(rule(**{"onFailure": "NONE", **more})), GOOD, 1)


def test_dead_letters_are_errors() -> None:
    with pytest.raises(BadData, match="is not kept"):
        encode(codec(rule(onFailure="DLQ", params={"dlq.topic": "bad"})), WRONG, 1)
