"""For compatible schemas, every instance of the old one is valid under the new one, according to jsonschema-rs."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ottla.registry.schemas import check, parse

NAMES = st.sampled_from(("a", "b", "ab", "c"))
PATTERNS = st.sampled_from(("^a", "b$"))
SMALL = st.integers(0, 4)


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2) -> Any:
    kinds = ["string", "number", "integer", "null", "enum", "const", "types", "true"]
    if depth:
        kinds += ["object", "object", "array", "tuple", "anyOf", "oneOf", "allOf", "not", "if"]
    below = schemas(depth - 1)
    match draw(st.sampled_from(kinds)):
        case "string":
            return {"type": "string", **draw(some(minLength=SMALL, maxLength=SMALL, pattern=PATTERNS))}
        case "number":
            limits = some(minimum=SMALL, maximum=SMALL, exclusiveMinimum=SMALL, multipleOf=st.integers(1, 4))
            return {"type": "number", **draw(limits)}
        case "integer":
            return {"type": "integer", **draw(some(minimum=SMALL, exclusiveMaximum=SMALL))}
        case "null":
            return {"type": "null"}
        case "enum":
            return {"enum": draw(st.lists(st.sampled_from(("a", 1, None, 2)), min_size=1, unique=True))}
        case "const":
            return {"const": draw(st.sampled_from(("a", 1, None)))}
        case "types":
            return {
                "type": draw(
                    st.lists(st.sampled_from(("string", "integer", "null")), min_size=1, unique=True)
                )
            }
        case "true":
            return draw(st.sampled_from((True, {})))
        case "object":
            return draw(objects(depth))
        case "array":
            return {
                "type": "array",
                "items": draw(below),
                **draw(some(minItems=SMALL, uniqueItems=st.booleans())),
            }
        case "tuple":
            items = draw(st.lists(below, min_size=1, max_size=2))
            return {"type": "array", "items": items, "additionalItems": draw(st.one_of(st.booleans(), below))}
        case "anyOf":
            return {"anyOf": draw(st.lists(below, min_size=1, max_size=3))}
        case "oneOf":
            # Overlapping alternatives are compared like in Confluent's check, which ignores the overlap.
            types = draw(st.lists(st.sampled_from(("string", "integer", "null")), min_size=1, unique=True))
            return {"oneOf": [{"type": each} for each in types]}
        case "allOf":
            return {"allOf": draw(st.lists(below, min_size=1, max_size=2))}
        case "not":
            return {"not": draw(below)}
    return {"if": draw(below), "then": draw(below), **draw(some(**{"else": below}))}


@st.composite
def objects(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    below = schemas(depth - 1)
    schema: dict[str, Any] = {"type": "object", "properties": draw(st.dictionaries(NAMES, below, max_size=3))}
    schema |= draw(
        some(
            additionalProperties=st.one_of(st.booleans(), below),
            patternProperties=st.dictionaries(PATTERNS, below, max_size=2),
            required=st.lists(NAMES, unique=True, max_size=2),
            dependencies=st.dictionaries(NAMES, st.lists(NAMES, unique=True, max_size=2), max_size=1),
            maxProperties=SMALL,
            propertyNames=st.fixed_dictionaries({"maxLength": SMALL}),
        )
    )
    return schema


def some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keywords)


@st.composite
def evolved(draw: st.DrawFn, schema: Any, depth: int = 2) -> Any:
    if draw(st.integers(0, 11)) == 0:
        return draw(schemas(1))
    if isinstance(schema, bool):
        return schema
    changed = {}
    for keyword, value in schema.items():
        if draw(st.integers(0, 7)) == 0 and keyword != "type":
            continue
        if keyword in ("items", "not", "if", "then", "else", "additionalProperties") and isinstance(
            value, dict | bool
        ):
            value = draw(evolved(value))
        elif keyword in ("anyOf", "allOf") or (keyword == "items" and isinstance(value, list)):
            value = [draw(evolved(item)) for item in value]
            if draw(st.booleans()) and keyword != "items":
                value.append(draw(schemas(1)))
        elif keyword == "properties":
            value = {name: draw(evolved(item)) for name, item in value.items() if draw(st.integers(0, 5))}
            value |= draw(st.dictionaries(NAMES, schemas(1), max_size=1))
        elif isinstance(value, int) and not isinstance(value, bool):
            value = max(0 if keyword != "multipleOf" else 1, value + draw(st.sampled_from((-1, 0, 1))))
        changed[keyword] = value
    return changed


VALUES = st.recursive(
    st.sampled_from(("a", "", "ab", "bbb", 0, 1, 2, 3, 1.5, -1, 4, None, True)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=4,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(data=st.data())
def test_every_instance_of_the_old_schema_is_one_of_the_new(data: st.DataObject) -> None:
    compare_with_instances(data)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@settings(max_examples=1500, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(data=st.data())
def test_every_instance_of_the_old_schema_is_one_of_the_new_in_thousands_of_pairs(
    data: st.DataObject,
) -> None:
    compare_with_instances(data)


def compare_with_instances(data: st.DataObject) -> None:
    old = data.draw(schemas())
    new = data.draw(evolved(old))
    if check(parse("JSON", json.dumps(new), {}), parse("JSON", json.dumps(old), {})):
        assume(False)
    was, is_now = jsonschema_rs.Draft7Validator(old), jsonschema_rs.Draft7Validator(new)
    for value in data.draw(st.lists(VALUES, min_size=20, max_size=20)):
        if was.is_valid(value):
            assert is_now.is_valid(value), value


@settings(max_examples=40)
@given(schemas())
def test_every_schema_reads_itself(schema: Any) -> None:
    one, other = parse("JSON", json.dumps(schema), {}), parse("JSON", json.dumps(schema), {})

    assert not check(one, other)
