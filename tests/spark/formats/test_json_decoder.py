"""The fast JSON readers accept only input that the exact reader accepts, with the same results."""

from __future__ import annotations

import json
import random
from datetime import UTC
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import types as spark_types

from ottla.spark.formats import json_decoder, json_lines
from ottla.spark.formats.json_decoder import JsonDecoder
from ottla.spark.formats.json_rows import BadJson, row_parser
from ottla.spark.formats.json_types import arrow_type

FLAT = {
    "name": spark_types.StringType(),
    "n": spark_types.IntegerType(),
    "tiny": spark_types.ByteType(),
    "large": spark_types.LongType(),
    "truth": spark_types.BooleanType(),
    "score": spark_types.DoubleType(),
    "single": spark_types.FloatType(),
    "day": spark_types.DateType(),
    "at": spark_types.TimestampType(),
    "grüß": spark_types.StringType(),
}
NESTED = FLAT | {
    "tags": spark_types.ArrayType(spark_types.StringType()),
    "place": spark_types.StructType().add("x", spark_types.DoubleType()).add("day", spark_types.DateType()),
    "price": spark_types.DecimalType(10, 2),
}
PIECES = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b"\\",
    b"\\n",
    b"\n",
    b" ",
    b"0",
    b"-",
    b"1.5",
    b"1e5",
    b"null",
]
PIECES += [
    b"true",
    b"tru",
    b"NaN",
    b'"n"',
    b'"name":',
    b"\xc3\xbc",
    b"\xff",
    b"\x00",
    b"{}",
    b"99999999999999999999",
]


def struct(fields: dict[str, Any]) -> Any:
    return spark_types.StructType([spark_types.StructField(name, kind) for name, kind in fields.items()])


def some_value(random_: random.Random, name: str) -> Any:
    choices: dict[str, Any] = {
        "name": lambda: random_.choice(["", "plain", 'quo"te', "new\nline", "grüß", "😀", 12, {"a": [1]}]),
        "n": lambda: random_.choice([0, -1, 2**31 - 1, -(2**31), 2**31, 1.0, "1"]),
        "tiny": lambda: random_.randrange(-130, 130),
        "large": lambda: random_.choice([2**63 - 1, -(2**63), 2**63, 10**17, 10**18, -(10**18)]),
        "truth": lambda: random_.choice([True, False, "true"]),
        "score": lambda: random_.choice([random_.random(), -1.5e-7, 1e300, 12, "NaN", "x"]),
        "single": lambda: random_.choice([0.1, 1, 16777217]),
        "day": lambda: random_.choice(["2024-02-29", "2024-2-3", "2023-02-29", 5]),
        "at": lambda: random_.choice(["2024-05-06T07:08:09Z", "2024-05-06 07:08:09.5", "2024", 1700000000]),
        "grüß": lambda: "ü",
        "tags": lambda: random_.choice([[], ["a", None], ["b", 1], "c"]),
        "place": lambda: random_.choice([{}, {"x": 1.5, "day": "2024-01-01"}, {"x": 1, "y": 2}, [1]]),
        "price": lambda: random_.choice([1.5, 12, "3.25", 1.255, 1e9]),
    }
    if random_.random() < 0.1 or name not in choices:
        return None
    return choices[name]()


def some_text(random_: random.Random, names: list[str]) -> bytes | None:
    if random_.random() < 0.02:
        return None
    chosen = random_.sample([*names, "other", "Name"], random_.randrange(len(names)))
    row = {name: some_value(random_, name) for name in chosen}
    text = json.dumps(
        row, ensure_ascii=random_.random() < 0.5, indent=random_.choice([None, None, 1])
    ).encode()
    while random_.random() < 0.2:  # break it sometimes
        at = random_.randrange(len(text) + 1)
        text = text[:at] + random_.choice(PIECES) + text[at + random_.randrange(3) :]
    return text


def expected(kind: Any, texts: list[bytes | None]) -> tuple[list[Any], list[int]]:
    parse = row_parser(kind, UTC)
    values, bad = [], []
    for row, text in enumerate(texts):
        try:
            values.append(None if text is None else parse(text))
        except BadJson:
            values.append(None)
            bad.append(row)
    return pa.array(values, arrow_type(kind)).to_pylist(), bad


@pytest.mark.parametrize("readers", ["all", "without numba"])
@pytest.mark.parametrize("fields", [FLAT, NESTED], ids=["flat", "nested"])
@pytest.mark.parametrize("seed", range(5))
def test_every_reader_gives_what_the_exact_one_gives(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], readers: str, seed: int
) -> None:
    if readers == "without numba":
        monkeypatch.setattr(json_decoder, "PlainReader", None)
        monkeypatch.setattr(json_lines, "fill_lines", None)
    random_ = random.Random(seed)
    kind = struct(fields)
    decoder = JsonDecoder(kind, "UTC")
    for _ in range(20):
        texts = [some_text(random_, list(fields)) for _ in range(random_.choice([1, 5, 100]))]
        # A slice, so that neither offsets nor validity start at the beginning of their buffers.
        decoded = decoder.decode(pa.array([b"{}", None, *texts], pa.binary()).slice(2))
        decoded.column.validate(full=True)
        values, bad = expected(kind, texts)
        assert sorted(decoded.reasons) == bad
        found = decoded.column.to_pylist()
        assert [
            trio for trio in zip(texts, map(str, found), map(str, values), strict=True) if trio[1] != trio[2]
        ] == []


def test_one_bad_row_among_many_costs_no_other() -> None:
    kind = struct({"n": spark_types.IntegerType(), "tags": spark_types.ArrayType(spark_types.IntegerType())})
    texts = [json.dumps({"n": number, "tags": [number]}).encode() for number in range(3000)]
    texts[1234] = b"broken"
    texts[2000] = b'{"n": 1} {"n": 2}'
    texts[2001] = b""
    decoded = JsonDecoder(kind, "UTC").decode(pa.array(texts, pa.binary()))
    assert sorted(decoded.reasons) == [1234, 2000, 2001]
    numbers = [None if row is None else row["n"] for row in decoded.column.to_pylist()]
    assert numbers == [None if row in decoded.reasons else row for row in range(3000)]


def test_reasons_name_the_field() -> None:
    kind = struct(NESTED)
    texts = [b'{"n": "many"}', b'{"place": {"day": "soon"}}', b'{"tags": [], "n": 1', b'{"a": "\xff"}']
    decoded = JsonDecoder(kind, "UTC").decode(pa.array(texts, pa.binary()))
    assert decoded.reasons == {
        0: 'n is "many", not int',
        1: 'place.day is "soon", not date',
        2: "not JSON at character 19",
        3: "not UTF-8 at byte 7",
    }


def test_lax_numbers_may_be_texts_and_fractions_are_cut_off() -> None:
    kind = spark_types.StructType([spark_types.StructField(name, each) for name, each in NESTED.items()])
    rows = [
        b'{"n": "12", "large": " 7", "score": "1.5"}',
        b'{"n": "-12", "large": 7.9, "score": "2e1"}',
        b'{"n": 1e1, "large": "8", "score": 3}',
        b'{"n": "twelve"}',
        b'{"n": "3000000000"}',
        b'{"n": 12, "score": "NaN"}',
    ]
    # More rows than the initial row-by-row phase, so that every reader runs.
    plain = [b'{"n": 1}'] * 100
    decoded = JsonDecoder(kind, "UTC", lax=True).decode(pa.array([*rows, *plain], pa.binary()))
    found = [
        None if each is None else (each["n"], each["large"], each["score"])
        for each in decoded.column.to_pylist()
    ]
    assert found[:5] == [None, (-12, 7, 20.0), (10, 8, 3.0), None, None]
    assert found[6:] == [(1, None, None)] * 100
    assert set(decoded.reasons) == {0, 3, 4}
    assert set(JsonDecoder(kind, "UTC").decode(pa.array(rows, pa.binary())).reasons) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("count", [1, 20], ids=["few rows", "a block"])
@pytest.mark.parametrize("nested", [False, True], ids=["plain", "nested"])
def test_lax_names_match_an_upper_case_field_in_any_case(count: int, nested: bool) -> None:
    inner = (
        spark_types.StructType()
        .add("TOWN", spark_types.StringType())
        .add("town", spark_types.StringType())
        .add("N", spark_types.IntegerType())
    )
    kind = (
        spark_types.StructType()
        .add("PLACE", inner)
        .add("L", spark_types.ArrayType(spark_types.IntegerType()))
        if nested
        else inner
    )
    texts = [b'{"Town": "a", "n": 1}', b'{"TOWN": "b", "N": 2}', b'{"town": "c", "n": 3}', b'{"tOWN": null}']
    wanted: list[dict[str, Any]] = [
        {"TOWN": "a", "town": None, "N": 1},
        {"TOWN": "b", "town": None, "N": 2},
        {"TOWN": None, "town": "c", "N": 3},
        {"TOWN": None, "town": None, "N": None},
    ]
    if nested:
        texts = [b'{"Place": %b, "l": [1]}' % text for text in texts]
        wanted = [{"PLACE": row, "L": [1]} for row in wanted]
    lax = JsonDecoder(kind, "UTC", lax=True).decode(pa.array(texts * count, pa.binary()))
    assert lax.column.to_pylist() == wanted * count
    exact = JsonDecoder(kind, "UTC").decode(pa.array(texts[:1] * count, pa.binary())).column.to_pylist()
    assert set(exact[0].values()) == {None}
