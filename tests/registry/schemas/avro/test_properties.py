"""Schemas that the check calls compatible are: fastavro writes with one and reads with the other."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ottla.registry.schemas import check, parse

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NUMBERS = ("int", "long", "float", "double")


@st.composite
def types(draw: st.DrawFn, path: str = "t", depth: int = 3, *, in_union: bool = False) -> Any:
    kinds = ["primitive", "enum", "fixed"]
    if depth:
        kinds += ["array", "map", "record", "record"] + ([] if in_union else ["union"])
    match draw(st.sampled_from(kinds)):
        case "primitive":
            return draw(st.sampled_from(PRIMITIVES))
        case "enum":
            symbols = draw(st.lists(st.sampled_from("ABC"), min_size=1, unique=True))
            default = {"default": symbols[0]} if draw(st.booleans()) else {}
            return {"type": "enum", "name": f"E_{path}", "symbols": symbols, **default}
        case "fixed":
            return {"type": "fixed", "name": f"F_{path}", "size": draw(st.integers(1, 2))}
        case "array":
            return {"type": "array", "items": draw(types(path + "i", depth - 1))}
        case "map":
            return {"type": "map", "values": draw(types(path + "v", depth - 1))}
        case "union":
            return draw(unions(path, depth))
    names = draw(st.lists(st.sampled_from("abc"), unique=True, max_size=3))
    return {
        "type": "record",
        "name": f"R_{path}",
        "fields": [draw(fields(name, path, depth)) for name in names],
    }


@st.composite
def fields(draw: st.DrawFn, name: str, path: str, depth: int) -> dict[str, Any]:
    type_ = draw(types(path + name, depth - 1))
    default = draw(
        st.sampled_from(({}, {"default": 1}, {"default": None}, {"default": "A"}, {"default": []}))
    )
    field = {"name": name, "type": type_, **default}
    try:
        parse("AVRO", json.dumps({"type": "record", "name": "X", "fields": [field]}), {})
    except ValueError:
        del field["default"]
    # fastavro takes a union's default only from the first branch.
    if isinstance(type_, list) and "default" in field:
        del field["default"]
    return field


@st.composite
def unions(draw: st.DrawFn, path: str, depth: int) -> list[Any]:
    branches: dict[str, Any] = {}
    for index in range(draw(st.integers(1, 3))):
        branch = draw(types(f"{path}u{index}", depth - 1, in_union=True))
        branches[branch["type"] if isinstance(branch, dict) else branch] = branch
    return list(branches.values())


@st.composite
def evolved(draw: st.DrawFn, schema: Any, path: str = "t") -> Any:
    """Return the schema with some changes, so that many pairs are just compatible or just not."""
    if draw(st.integers(0, 9)) == 0:
        return draw(types(path, 1))
    if isinstance(schema, list):
        kept = [branch for branch in schema if draw(st.integers(0, 5))] or schema
        return [draw(evolved(branch, f"{path}u")) if isinstance(branch, dict) else branch for branch in kept]
    if isinstance(schema, str):
        return (
            draw(st.sampled_from((schema, *NUMBERS[NUMBERS.index(schema) :])))
            if schema in NUMBERS
            else schema
        )
    match schema["type"]:
        case "enum":
            symbols = draw(st.lists(st.sampled_from("ABC"), min_size=1, unique=True))
            return {"type": "enum", "name": schema["name"], "symbols": symbols, "default": symbols[0]}
        case "array":
            return {"type": "array", "items": draw(evolved(schema["items"], path + "i"))}
        case "map":
            return {"type": "map", "values": draw(evolved(schema["values"], path + "v"))}
        case "record":
            kept = [field for field in schema["fields"] if draw(st.integers(0, 4))]
            changed = [
                {**field, "type": draw(evolved(field["type"], path + field["name"]))} for field in kept
            ]
            for field in changed:
                field.pop("default", None)
            if draw(st.booleans()):
                changed.append({"name": "new", "type": "int", "default": 7})
            return {**schema, "fields": changed}
    return schema


def values(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, list):
        # The name saves fastavro from guessing the branch.
        return st.one_of([values(branch).map(lambda value, b=branch: _tagged(b, value)) for branch in schema])
    if isinstance(schema, str):
        return {
            "null": st.none(),
            "boolean": st.booleans(),
            "int": st.integers(-(2**31), 2**31 - 1),
            "long": st.integers(-(2**63), 2**63 - 1),
            "float": st.floats(width=32, allow_nan=False),
            "double": st.floats(allow_nan=False),
            "bytes": st.text(max_size=3).map(str.encode),
            "string": st.text(max_size=3),
        }[schema]
    match schema["type"]:
        case "enum":
            return st.sampled_from(schema["symbols"])
        case "fixed":
            return st.binary(min_size=schema["size"], max_size=schema["size"])
        case "array":
            return st.lists(values(schema["items"]), max_size=2)
        case "map":
            return st.dictionaries(st.text(max_size=2), values(schema["values"]), max_size=2)
    return st.fixed_dictionaries({field["name"]: values(field["type"]) for field in schema["fields"]})


def _tagged(branch: Any, value: Any) -> Any:
    if isinstance(branch, dict) and branch["type"] in ("record", "enum", "fixed"):
        return (branch["name"], value)
    return (branch["type"] if isinstance(branch, dict) else branch, value)


@settings(max_examples=60)
@given(data=st.data())
def test_what_is_called_readable_is_read(data: st.DataObject) -> None:
    write_and_read(data)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@settings(max_examples=2000)
@given(data=st.data())
def test_what_is_called_readable_is_read_in_thousands_of_pairs(data: st.DataObject) -> None:
    write_and_read(data)


def write_and_read(data: st.DataObject) -> None:
    written = data.draw(types())
    read = data.draw(evolved(written))
    try:
        reader, writer = parse("AVRO", json.dumps(read), {}), parse("AVRO", json.dumps(written), {})
    except ValueError:
        assume(False)  # Two branches of a union got the same name.
        return
    assume(not check(reader, writer))
    value = data.draw(values(written))

    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(written), value)
    buffer.seek(0)
    fastavro.schemaless_reader(buffer, fastavro.parse_schema(written), fastavro.parse_schema(read))


@settings(max_examples=50)
@given(types())
def test_every_schema_reads_itself_and_its_printed_form(schema: Any) -> None:
    try:
        parsed = parse("AVRO", json.dumps(schema), {})
    except ValueError:
        assume(False)
        return
    again = parse("AVRO", parsed.canonical, {})

    assert again.canonical == parsed.canonical
    assert not check(parsed, again)
    assert not check(again, parsed)
    assert parse("AVRO", parsed.normalized, {}).normalized == parsed.normalized
