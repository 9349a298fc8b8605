"""Skipping batches and records in a search gives the same results as decoding all of them."""

from __future__ import annotations

import json
import re

import pytest

from ottla.console.messages import literals
from ottla.console.messages.decoding import Decoder
from ottla.console.messages.reading import Batch, message_of
from ottla.console.messages.scanning import Query, Scanner, first_is_text, matcher
from ottla.protocol.batch_header import read_header
from ottla.protocol.record_format import Record
from ottla.protocol.records import build_batch, read_batch

VALUES = [
    b'{"name":"Ann","amount":12,"list":[1,2]}',
    b'{"name": "Zo\\u017eofie", "amount": 12.5}',
    '{"name": "Žofie", "url": "http:\\/\\/a\\u0026b"}'.encode(),
    b"plain text, a: b",
    b"{broken",
    b'"just a text"',
    b"17",
    b"1e400",
    b"",
    None,
    b"\x82\xa1a\x01\xa1b\xa3Ann",
    b"\x00\x01\xff",
    "žluťoučký kůň".encode(),
]
QUERIES = [
    Query("ann"), Query("Ann", ignore_case=False), Query("ž"), Query("Žofie", ignore_case=False), Query("a&b"),
    Query('"name": "Ann"'), Query('name":"Ann'), Query("[1, 2]"), Query("[1,2]"), Query("tenant: blue"),
    Query("text, a: b"), Query("http://a"), Query("12.5"), Query("kůň"),
    Query("^plain", "regex"), Query("amount.*12", "regex"), Query("(?i)ANN", "regex", ignore_case=False),
    Query(r"\d{2}", "regex"),
    Query("value.name == 'Ann'", "expression"), Query("value.amount > 12 and key == 'k1'", "expression"),
    Query("value == 17", "expression"), Query("headers.tenant == 'blue'", "expression"),
    Query("value == None", "expression"),
    Query("value->name = 'Ann'", "sql"), Query("amount > 12 OR offset = 3", "sql"), Query("value IS NULL", "sql"),
    Query("headers->tenant LIKE 'bl%' AND partition = 4", "sql"), Query("ann", places=("key",)),
    Query("k1", places=("key",)), Query("name LIKE 'A_n%'", "sql"), Query("NOT (name = 'Ann')", "sql"),
    Query("(name = 'Ann') IS NULL", "sql"), Query("COALESCE(name = 'nobody', TRUE)", "sql"),
    Query("topic = 'orders' AND key = 'k0'", "sql"), Query("LOWER(name) = 'ann'", "sql"),
    Query("name = 'Ann' OR offset = 6", "sql"), Query("name LIKE '%Žo%'", "sql"), Query("'Ann' = name", "sql"),
]  # fmt: skip


def batch_of(values: list[bytes | None]) -> Batch:
    records = [
        Record(
            number, 1_700_000_000_000, b"k%d" % number, value, [("tenant", b"blue")] if number == 2 else []
        )
        for number, value in enumerate(values)
    ]
    data = bytes(build_batch(records))
    return Batch(memoryview(data), 0, read_header(data))


def found_by_scanning(query: Query, batch: Batch) -> list[int]:
    decoder = Decoder(None)
    scanner = Scanner("orders", query, decoder, masked=False)
    scanner.partition = 4
    matches = matcher(query)
    if not scanner.may_have(batch):
        return []
    found = []
    for record in read_batch(batch.buffer, batch.position):
        verdict = scanner.judge(record)
        if verdict or (verdict is None and matches(decoder.message(message_of("orders", 4, batch, record)))):
            found.append(record.offset)
    return found


@pytest.mark.parametrize("query", QUERIES, ids=lambda each: f"{each.mode}-{each.text}")
def test_as_much_is_found_as_by_decoding_everything(query: Query) -> None:
    """Each record is its own batch, because a search skips whole batches."""
    matches, decoder = matcher(query), Decoder(None)
    for number, value in enumerate(VALUES):
        values = [*VALUES[:number], value]
        whole = batch_of(values)
        [*_, record] = read_batch(whole.buffer, whole.position)
        shown = decoder.message(message_of("orders", 4, whole, record))
        written = query.mode == "regex" and shown.value.format == "json"  # searched in its original form
        alone = Record(0, record.timestamp, record.key, record.value, record.headers)
        data = bytes(build_batch([alone]))
        single = Batch(memoryview(data), 0, read_header(data))
        if not written:
            by_scanning = number in found_by_scanning(query, whole)
            assert by_scanning == matches(shown), (query, value)
            if "offset" not in query.text:
                assert bool(found_by_scanning(query, single)) == matches(shown), (query, value)


def test_a_batch_without_the_bytes_is_skipped() -> None:
    batch = batch_of([b'{"name": "Ann"}'] * 10)
    for query in (
        Query("Bob"),
        Query("bob.*$", "regex"),
        Query("value.name == 'Bob'", "expression"),
        Query('"name": "Bob"'),
    ):
        assert not Scanner("orders", query, Decoder(None), masked=False).may_have(batch), query
        # Search results must not reveal masked values.
        assert Scanner("orders", query, Decoder(None), masked=True).may_have(batch), query
    assert Scanner("orders", Query("ANN"), Decoder(None), masked=False).may_have(batch)


def test_a_batch_that_begins_with_a_tombstone_is_not_taken_for_text() -> None:
    framed = [None, b"\x00\x00\x00\x00\x01abc"]
    for values in (framed, framed[::-1]):
        data = bytes(build_batch([Record(0, 0, b"k", value) for value in values]))
        batch = Batch(memoryview(data), 0, read_header(data))
        assert Scanner("orders", Query("nowhere"), Decoder(None), masked=False).may_have(batch)


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("not-found$", [b"not-found"]),
        (r"\d+abc(def)+x", [b"abc", b"def", b"x"]),
        ("one|two", None),
        ("ab?cde*fgh", [b"fgh", b"cd", b"a"]),
        ("^foo.*bar baz", [b"bar baz", b"foo"]),
        ("(?:one|two)-three", [b"-three"]),
        ("[abc]+", None),
        ("(?=abc)x", [b"x"]),
        ("(?x) a b c", None),
    ],
)
def test_letters_that_a_regular_expression_must_find(pattern: str, wanted: list[bytes] | None) -> None:
    found = literals.of_pattern(re.compile(pattern))
    assert (None if found is None else [*found.pieces]) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("key = 'abc'", [b"abc"]),
        ("WHERE key = 'abc' AND value->amount > 3 AND headers->tenant = 'blue'", [b"blue", b"abc"]),
        ("value->name LIKE 'Ann%Lee_'", [b"Ann", b"Lee"]),
        ("topic = 'orders'", None),
        ("key = 'abc' OR key = 'def'", None),
        ("NOT key = 'abc'", None),
        ("(key = 'abc') = FALSE", None),
        ("key = 'abc' IS FALSE", None),
        ("LOWER(key) = 'abc'", None),
        ("COALESCE(key = 'abc', TRUE)", None),
        ("key || 'x' = 'abcx'", None),
        ("key IN ('abc', 'def')", None),
        ("key NOT LIKE 'abc%'", None),
        ("key LIKE 'a!%c' ESCAPE '!'", None),
        ("key BETWEEN 'a' AND 'b'", None),
        ("key > 'abc'", None),
    ],
)
def test_texts_that_an_sql_condition_needs(text: str, wanted: list[bytes] | None) -> None:
    found = literals.of_sql(text)
    assert (None if found is None else [*found.pieces]) == wanted


def test_numbers_and_texts_are_read_as_pythons_json_reads_them() -> None:
    decoder = Decoder(None)
    for text in (
        "123456789012345678901234567890",
        '{"a": 1, "a": 2}',
        "-0",
        " [1] ",
        '{"x": "\\ud800"}',
    ):
        assert decoder.value_of(text.encode()) == json.loads(text) == decoder.part(text.encode()).value
    assert decoder.part(b"1e400").format == "text"
    assert decoder.value_of(b"1e400") == "1e400"


def test_text_is_told_by_its_first_byte() -> None:
    assert first_is_text(bytes(build_batch([Record(0, 0, None, b"{}")])[61:]))
    assert not first_is_text(bytes(build_batch([Record(0, 0, None, b"\x00\x00")])[61:]))
