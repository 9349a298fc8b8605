"""Promise: our Avro decoder agrees with fastavro, and invalid bytes affect only their own row."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import pytest

pytest.importorskip("numba")
pytest.importorskip("pyarrow")

import fastavro
import numpy as np
import pyarrow as pa
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from ottla.spark.formats.avro.decoder import AvroDecoder
from ottla.spark.formats.avro.program import Unresolvable
from ottla.spark.formats.avro.schema import AvroSchemaError, parse
from ottla.spark.formats.json_decoder import Decoded
from ottla.spark.options import OptionError
from tests.spark.formats.avro_schemas import plain, read, schemas, values, written


def decoded(records: list[bytes | None], writer: Any, reader: Any = None) -> Decoded:
    decoder = AvroDecoder(parse(json.dumps(writer if reader is None else reader)))
    number = decoder.add(parse(json.dumps(writer)))
    column = pa.array(records, pa.binary())
    numbers = np.array([-1 if each is None else number for each in records], np.int64)
    result = decoder.decode(column, numbers, np.zeros(len(records), np.int64))
    result.column.validate(full=True)
    assert len(result.column) == len(records)
    return result


def decoded_values(records: list[bytes | None], writer: Any, reader: Any = None) -> list[Any]:
    result = decoded(records, writer, reader)
    assert result.reasons == {}
    node = parse(json.dumps(writer if reader is None else reader))
    return [plain(each, node) for each in result.column.to_pylist()]


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    """Return a record schema of fields: (name, type) or (name, type, default)."""
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": each[0], "type": each[1], **({"default": each[2]} if len(each) > 2 else {})}
            for each in fields
        ],
    }


@settings(max_examples=120)
@given(st.data())
def test_any_schema_is_read_as_fastavro_reads_it(data: Any) -> None:
    schema = data.draw(schemas())
    rows = [written(schema, each) for each in data.draw(st.lists(values(schema), min_size=1, max_size=6))]
    assert decoded_values(rows, schema) == [read(each, schema) for each in rows]


@settings(max_examples=120)
@given(st.data())
def test_a_changed_schema_is_resolved_as_fastavro_resolves_it(data: Any) -> None:
    types = data.draw(st.lists(schemas(depth=2, names=[100]), min_size=1, max_size=5))
    # A global name counter would need one draw, so each field's types get their own names.
    types = [_renamed(each, index) for index, each in enumerate(types)]
    writer = record(*((f"f{index}", each) for index, each in enumerate(types)))
    kept = [each for each in writer["fields"] if data.draw(st.booleans())]
    reader_fields = [{**each, "type": data.draw(st.sampled_from(_promotions(each["type"])))} for each in kept]
    for index, (kind, default) in enumerate(data.draw(st.lists(st.sampled_from(DEFAULTS), max_size=3))):
        reader_fields.append({"name": f"new{index}", "type": _renamed(kind, f"n{index}"), "default": default})
    for each in reader_fields:
        if each["name"].startswith("f") and data.draw(st.booleans()):
            each["aliases"] = [each["name"]]
            each["name"] = "renamed_" + each["name"]
    reader = {**writer, "fields": data.draw(st.permutations(reader_fields))}
    drawn = data.draw(st.lists(values(writer), min_size=1, max_size=4))
    try:
        rows = [written(writer, each) for each in drawn]
    except ValueError:  # fastavro parses a text as a date if a union has both
        reject()
    assert decoded_values(rows, writer, reader) == [read(each, writer, reader) for each in rows]


DEFAULTS: list[tuple[Any, Any]] = [
    ("int", 7),
    ("long", -(2**40)),
    ("double", 2.5),
    ("float", -0.5),
    ("string", "grüß"),
    ("boolean", True),
    (["null", "int"], None),
    (["int", "null"], 5),
    ({"type": "array", "items": "string"}, ["x", "", "yz"]),
    ({"type": "array", "items": "int"}, []),
    ({"type": "map", "values": {"type": "array", "items": "long"}}, {"a": [1, 2], "b": []}),
    ({"type": "enum", "name": "E", "symbols": ["P", "Q"]}, "Q"),
    (record(("x", "int"), ("y", ["null", "string"], None), name="Inner"), {"x": 3, "y": None}),
    ("null", None),
]
_PROMOTED = {
    "int": ["int", "long", "float", "double"],
    "long": ["long", "float", "double"],
    "float": ["float", "double"],
    "string": ["string"],
}


def _promotions(kind: Any) -> list[Any]:
    return _PROMOTED.get(kind, [kind]) if isinstance(kind, str) else [kind]


def _renamed(schema: Any, suffix: Any) -> Any:
    if isinstance(schema, list):
        return [_renamed(each, suffix) for each in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {
        key: _renamed(each, suffix) if key in ("type", "items", "values") else each
        for key, each in schema.items()
    }
    if "fields" in schema:
        changed["fields"] = [{**each, "type": _renamed(each["type"], suffix)} for each in schema["fields"]]
    if "name" in schema:
        changed["name"] = f"{schema['name']}_{suffix}"
    return changed


# Resolution


def test_an_enum_takes_the_readers_default_for_symbols_that_it_does_not_know() -> None:
    writer = record(("k", {"type": "enum", "name": "K", "symbols": ["A", "B", "C"]}))
    reader = record(("k", {"type": "enum", "name": "K", "symbols": ["C", "A"], "default": "A"}))
    rows = [written(writer, {"k": each}) for each in "ABC"]
    assert [each["k"] for each in decoded_values(rows, writer, reader)] == ["A", "A", "C"]


def test_a_symbol_without_a_default_makes_a_bad_row() -> None:
    writer = record(("k", {"type": "enum", "name": "K", "symbols": ["A", "B"]}))
    reader = record(("k", {"type": "enum", "name": "K", "symbols": ["A"]}))
    result = decoded([written(writer, {"k": each}) for each in "AB"], writer, reader)
    assert result.column.to_pylist() == [{"k": "A"}, None]
    assert list(result.reasons) == [1]
    assert "k is a symbol" in result.reasons[1]


def test_only_records_of_a_branch_that_does_not_fit_are_bad() -> None:
    writer, reader = record(("v", ["int", "string", "null"])), record(("v", ["null", "string"]))
    rows = [written(writer, {"v": each}) for each in (1, "x", None)]
    result = decoded(rows, writer, reader)
    assert result.column.to_pylist() == [None, {"v": "x"}, {"v": None}]
    assert result.reasons == {0: "v was written as int, which a union of null, string does not have"}


@pytest.mark.parametrize(
    ("writer", "reader", "reason"),
    [
        (record(("a", "string")), record(("a", "int")), "a was written as string, not int"),
        (
            record(("a", "int")),
            record(("a", "int"), ("b", "int")),
            "b was not written, and it has no default",
        ),
        (record(("a", "int")), record(("b", "int", "x")), "b has a default that is not of its type"),
        ("long", "int", "the value was written as long, not int"),
        (
            {"type": "fixed", "name": "F", "size": 4},
            {"type": "fixed", "name": "F", "size": 5},
            "the value was written as fixed F, not fixed F",
        ),
    ],
)
def test_schemas_that_do_not_fit_are_refused_with_the_reason(writer: Any, reader: Any, reason: str) -> None:
    with pytest.raises(Unresolvable, match=reason):
        decoded([], writer, reader)


def test_a_record_that_contains_itself_is_skipped_and_cannot_be_a_column() -> None:
    tree = {
        "type": "record",
        "name": "T",
        "fields": [{"name": "next", "type": ["null", "T"]}, {"name": "v", "type": "int"}],
    }
    writer = record(("tree", tree), ("n", "int"))
    value: Any = {"next": {"next": {"next": None, "v": 1}, "v": 2}, "v": 3}
    assert decoded_values([written(writer, {"tree": value, "n": 9})], writer, record(("n", "int"))) == [
        {"n": 9}
    ]
    with pytest.raises(OptionError, match="contains itself"):
        decoded([], writer)
    endless = b"\x02" * 5000
    result = decoded([endless], writer, record(("n", "int")))
    assert "nested too deeply" in result.reasons[0]


def test_many_writers_in_one_batch() -> None:
    versions = [
        record(("id", "int")),
        record(("id", "long"), ("name", "string", "none")),
        record(("name", "string"), ("id", "long"), ("gone", {"type": "map", "values": "bytes"})),
    ]
    reader = versions[1]
    decoder = AvroDecoder(parse(json.dumps(reader)))
    numbers = [decoder.add(parse(json.dumps(each))) for each in versions]
    rows, expected, which = [], [], []
    for row in range(300):
        version = row * 7 % 3
        value = {"id": row, "name": f"n{row}", "gone": {"k": b"v"}}
        rows.append(b"\x00abcd" + written(versions[version], value))
        which.append(numbers[version])
        expected.append({"id": row, "name": f"n{row}" if version else "none"})
    result = decoder.decode(pa.array(rows, pa.binary()), np.array(which), np.full(300, 5))
    assert result.reasons == {}
    assert result.column.to_pylist() == expected


def test_columns_grow_for_long_lists() -> None:
    schema = record(("xs", {"type": "array", "items": {"type": "map", "values": ["null", "string"]}}))
    rows = [
        {"xs": [{f"k{k}": None if k % 3 else "v" for k in range(n % 7)} for n in range(size)]}
        for size in (0, 3, 500, 1, 40)
    ]
    assert decoded_values([written(schema, each) for each in rows], schema) == rows


def test_blocks_that_say_their_size() -> None:
    """Other writers put sizes before blocks, so that readers can skip them."""
    schema = record(("xs", {"type": "array", "items": "int"}), ("n", "int"))
    data = bytes([3, 4, 2, 4, 1, 2, 6, 0, 10])  # -2, 2 bytes: 1, 2; 1: 3; end; 5
    assert decoded_values([data], schema) == [{"xs": [1, 2, 3], "n": 5}]
    assert decoded_values([data], schema, record(("n", "int"))) == [{"n": 5}]


# Bad bytes


def test_the_defaults_of_fields_count_within_a_default() -> None:
    reader = record(("r", record(("x", "int"), ("y", "int", 5), name="I"), {"x": 3}))
    assert decoded_values([b""], record(), reader) == [{"r": {"x": 3, "y": 5}}]


def test_null_is_null_and_not_bad() -> None:
    schema = record(("a", "int"), ("xs", {"type": "array", "items": "string"}))
    result = decoded([None, written(schema, {"a": 1, "xs": ["x"]}), None], schema)
    assert result.column.to_pylist() == [None, {"a": 1, "xs": ["x"]}, None]
    assert result.reasons == {}


@pytest.mark.parametrize(
    ("schema", "data", "reason"),
    [
        ("int", b"", "it ends within the value"),
        ("int", b"\x80" * 11, "more than ten bytes"),
        ("int", b"\xff\xff\xff\xff\xff\x01", "out of the range"),
        ("boolean", b"\x02", "neither 0 nor 1"),
        ("string", b"\x01", "negative length"),
        ("string", b"\x04\xc3\x28", "not UTF-8"),
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "it ends within"),
        (["null", "int"], b"\x04", "a branch that the union does not have"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}, b"\x02\x64", "more digits"),
        ({"type": "array", "items": "null"}, b"\xc0\x84\x3d\x00", "too many empty elements"),
        ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\x0f\x02", "it ends within"),
        ({"type": "array", "items": "int"}, b"\x01" + b"\x01", "negative length"),
        ("int", b"\x02\x02", "there is more after its end"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "out of",
        ),
    ],
)
def test_what_is_wrong_is_said(schema: Any, data: bytes, reason: str) -> None:
    result = decoded([data], schema)
    assert result.column.to_pylist() == [None]
    assert reason in result.reasons[0]


@settings(max_examples=50)
@given(st.data())
def test_malformed_bytes_harm_only_their_own_row_and_are_read_only_within_it(data: Any) -> None:
    schema = data.draw(schemas())
    good = [written(schema, each) for each in data.draw(st.lists(values(schema), min_size=2, max_size=5))]
    seed = random.Random(data.draw(st.integers(0, 2**32)))
    rows: list[bytes | None] = []
    for each in good:
        rows += [each, _damaged(each, seed), None]
    first = decoded(rows, schema)
    assert _shown(first.column.take(pa.array(range(0, len(rows), 3)))) == _shown(
        decoded(list(good), schema).column
    )
    assert all(row % 3 == 1 for row in first.reasons)
    for row in range(1, len(rows), 3):
        # The value decodes the same alone in its buffer.
        alone = decoded([rows[row]], schema)
        assert _shown(alone.column) == _shown(first.column.take(pa.array([row])))
        assert alone.reasons.get(0) == first.reasons.get(row)


@settings(max_examples=50)
@given(st.data())
def test_each_truncated_record_is_bad(data: Any) -> None:
    schema = data.draw(schemas())
    whole = written(schema, data.draw(values(schema)))
    cuts = [whole[:end] for end in range(len(whole))]
    result = decoded(list(cuts), schema)
    assert sorted(result.reasons) == list(range(len(cuts)))


def _damaged(data: bytes, seed: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(seed.randint(1, 4)):
        where = seed.randrange(len(changed) + 1)
        what = seed.randrange(4)
        if what == 0:
            changed[where:where] = bytes([seed.randrange(256)])
        elif what == 1:
            changed[where : where + 1] = bytes([seed.randrange(256)])
        elif what == 2:
            del changed[where:]
        else:
            changed[where:where] = bytes([0xFF] * seed.randrange(12))
    return bytes(changed)


def _shown(column: pa.Array) -> str:
    """Return a printable value. Damaged bytes may give a NaN, or a date outside Python's range."""
    return column.to_string(window=1_000_000, container_window=1_000_000)


# Schemas


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ('"Unknown"', "there is no type 'Unknown'"),
        ('{"type": "record", "name": "R"}', "has no fields"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a"}]}', "no name or no type"),
        ('{"type": "enum", "name": "E", "symbols": []}', "no symbols"),
        ('["int", "int"]', "the same type twice"),
        ('["int", ["null"]]', "contains a union"),
        ('{"type": "fixed", "name": "F", "size": -1}', "is no number"),
        ("[" * 50_000, "not JSON|nested too deeply"),
        ('{"type": "array", "items":' * 200 + '"int"' + "}" * 200, "nested too deeply"),
    ],
)
def test_a_malformed_schema_is_refused(text: str, reason: str) -> None:
    with pytest.raises(AvroSchemaError, match=reason):
        parse(text)


def test_references_bring_names_along() -> None:
    other = json.dumps(
        {"type": "record", "name": "Place", "namespace": "geo", "fields": [{"name": "x", "type": "int"}]}
    )
    node = parse('{"type": "record", "name": "R", "fields": [{"name": "at", "type": "geo.Place"}]}', [other])
    assert node.fields[0].node.fields[0].name == "x"


def test_fastavro_is_the_oracle_for_namespaces() -> None:
    schema = {
        "type": "record",
        "name": "a.R",
        "fields": [
            {"name": "one", "type": {"type": "enum", "name": "E", "symbols": ["X"]}},
            {"name": "two", "type": "E"},
            {"name": "three", "type": "a.E"},
        ],
    }
    value = {"one": "X", "two": "X", "three": "X"}
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    assert decoded_values([target.getvalue()], schema) == [value]
