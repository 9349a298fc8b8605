"""Transforms in config order, with predicates and Python functions."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from ottla.connect.config.config_def import ConfigError
from ottla.connect.data.record import Header, SinkRecord, SourceRecord
from ottla.connect.data.schema import INT32, STRING, SchemaBuilder
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError
from ottla.connect.transforms import Chain

KAFKA = "org.apache.kafka.connect.transforms."
HERE = "tests.connect.transforms.rules"


def chain(config: dict[str, str]) -> Chain:
    return Chain.from_config(config)


def test_without_transforms_records_pass_as_they_are() -> None:
    record = SourceRecord("t", 1)
    assert not chain({})
    assert chain({}).apply(record) is record


def test_transforms_are_applied_in_order_and_the_given_record_stays_as_it_is() -> None:
    config = {
        "transforms": "hoist, stamp",
        "transforms.hoist.type": KAFKA + "HoistField$Value",
        "transforms.hoist.field": "line",
        "transforms.stamp.type": "InsertField$Value",
        "transforms.stamp.offset.field": "at!",
    }
    record = SinkRecord("t", "x", STRING, offset=7, original_topic="t", original_partition=0)
    changed = chain(config).apply(record)
    assert changed is not None
    assert changed.value.values == ["x", 7]
    assert [each.schema.optional for each in changed.value_schema.fields] == [False, False]  # type: ignore[union-attr]
    assert record.value == "x"
    assert (changed.original_topic, changed.offset) == ("t", 7)  # type: ignore[attr-defined]


def test_what_a_transform_drops_the_next_one_does_not_see() -> None:
    config = {
        "transforms": "drop,fail",
        "transforms.drop.type": KAFKA + "Filter",
        "transforms.fail.type": f"{HERE}:fails",
    }
    assert chain(config).apply(SourceRecord("t", 1)) is None


@pytest.mark.parametrize(("negate", "topics"), [("false", ["a", "x"]), ("true", ["x", "b"])])
def test_a_predicate_says_which_records_are_changed(negate: str, topics: list[str]) -> None:
    config = {
        "transforms": "route",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": "x",
        "transforms.route.predicate": "has",
        "transforms.route.negate": negate,
        "predicates": "has",
        "predicates.has.type": KAFKA + "predicates.HasHeaderKey",
        "predicates.has.name": "h",
    }
    found = chain(config).apply_all([SourceRecord("a"), SourceRecord("b", headers=[Header("h", 1)])])
    assert [each.topic for each in found] == topics


def test_after_an_error_the_chain_says_which_transform_failed() -> None:
    made = chain(
        {"transforms": "cast", "transforms.cast.type": "Cast$Value", "transforms.cast.spec": "a:int8"}
    )
    with pytest.raises(DataError, match="out of range for requested data type"):
        made.apply(SourceRecord("t", {"a": "x"}))
    assert made.current is not None
    assert made.current.class_name == "Cast$Value"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"transforms.x.type": "no.such.Thing"}, "Class no.such.Thing could not be found."),
        ({"transforms.x.type": "json:JSONDecodeError"}, "Not a Transformation"),
        ({}, 'Missing required configuration "transforms.x.type"'),
        ({"transforms.x.type": "Cast$Value"}, 'Missing required configuration "spec"'),
        (
            {"transforms.x.type": KAFKA + "Filter", "transforms.x.predicate": "p"},
            "There is no predicate p in predicates.",
        ),
        (
            {"transforms.x.type": "RegexRouter", "transforms.x.regex": "[", "transforms.x.replacement": ""},
            "regex",
        ),
        ({"transforms.x.type": "AddHost"}, "Set header or field"),
        (
            {
                "transforms.x.type": "RegexExtractor",
                "transforms.x.regex": "(a)",
                "transforms.x.headers": "b,c",
            },
            "has 1 groups only",
        ),
    ],
)
def test_a_config_that_cannot_be_used_is_refused(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        chain({"transforms": "x", **config})
    assert message in caught.value.message


def test_a_function_that_fails_concerns_its_record() -> None:
    with pytest.raises(DataError, match="The function fails failed: KeyError: 'amount'"):
        chain({"transforms": "x", "transforms.x.type": f"{HERE}:fails"}).apply(SourceRecord("t"))
    with pytest.raises(DataError, match="must return a record or None, not str"):
        chain({"transforms": "x", "transforms.x.type": f"{HERE}:returns_nonsense"}).apply(SourceRecord("t"))


def test_settings_of_a_function_have_the_types_of_their_defaults() -> None:
    with pytest.raises(ConfigError, match="Not a number of type LONG"):
        chain({"transforms": "x", "transforms.x.type": f"{HERE}:only_large", "transforms.x.least": "many"})


def test_records_with_schemas_can_be_sent_to_other_processes() -> None:
    schema = SchemaBuilder("S").field("a", INT32).build()
    record = SourceRecord("t", Struct(schema, {"a": 1}), schema)
    hash(schema)
    copy: Any = pickle.loads(pickle.dumps(record))
    assert (copy.value, copy.value_schema, hash(copy.value_schema)) == (record.value, schema, hash(schema))


@pytest.mark.parametrize(
    ("config", "value", "message"),
    [
        ({"type": "Mask", "fields": "n"}, {"n": 5}, "field n is class java.lang.Long"),
        ({"type": "Mask", "fields": "n"}, "text", "Only a struct or a map has fields"),
        ({"type": "Mask", "replacement": "$9"}, "text", "No group 9"),
        ({"type": "AddTime", "field": "n"}, "text", "Only a struct or a map has fields"),
        ({"type": "FilterByPattern", "field": "n"}, "text", "Only a struct or a map has fields"),
    ],
)
def test_interceptors_refuse_what_they_cannot_change(
    config: dict[str, str], value: Any, message: str
) -> None:
    made = chain({"transforms": "x", **{f"transforms.x.{name}": each for name, each in config.items()}})
    with pytest.raises(DataError) as caught:
        made.apply(SourceRecord("t", value))
    assert message in caught.value.message


def test_interceptors_of_structs() -> None:
    schema = SchemaBuilder("S").field("a", STRING).field("b", STRING).build()
    config = {
        "transforms": "mask,drop,add",
        "transforms.mask.type": "Mask",
        "transforms.mask.fields": "a",
        "transforms.mask.keep.last": "1",
        "transforms.drop.type": "DropFields",
        "transforms.drop.fields": "b",
        "transforms.add.type": "AddStatic",
        "transforms.add.field": "c",
        "transforms.add.value": "v",
    }
    changed = chain(config).apply(SourceRecord("t", Struct(schema, {"a": "abc", "b": "x"}), schema))
    assert changed is not None
    assert str(changed.value) == "Struct{a=**c,c=v}"
    changed.value.validate()
