from __future__ import annotations

import json

import pytest

from ottla.registry.schemas import ParsedSchema, check, parse
from tests.registry.schemas.avro.cases import CASES, Case, field, record


def test_the_table_is_large_enough_and_names_each_case_once() -> None:
    assert len(CASES) >= 300
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_reader_reads_what_java_says_it_reads(case: Case) -> None:
    reader, writer = (parse("AVRO", text, {}) for text in case.texts())

    found = check(reader, writer)

    assert tuple(f"{each.type} {each.path}" for each in found) == case.expected


def test_a_message_names_the_field_and_the_new_and_the_old_schema() -> None:
    old = parse("AVRO", '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}', {})
    new = parse(
        "AVRO",
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"x","type":"int"}]}',
        {},
    )

    (missing,) = check(new, old)

    assert missing.message() == (
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'x' at path '/fields/1' in the new "
        "schema has no default value and is missing in the old schema', additionalInfo:'x'}"
    )
    assert "in the old schema has no default value and is missing in the new" in missing.message(
        reader="old", writer="new"
    )


@pytest.mark.parametrize(
    ("reader", "writer", "info"),
    [
        (
            '{"type":"enum","name":"E","symbols":["A"]}',
            '{"type":"enum","name":"E","symbols":["C","B","A"]}',
            "[B, C]",
        ),
        (
            '{"type":"fixed","name":"F","size":8}',
            '{"type":"fixed","name":"F","size":4}',
            "expected: 4, found: 8",
        ),
        ('{"type":"fixed","name":"G","size":4}', '{"type":"fixed","name":"n.F","size":4}', "expected: n.F"),
        ('"int"', '"string"', "reader type: INT not compatible with writer type: STRING"),
        ('["null"]', '"string"', "reader union lacking writer type: STRING"),
    ],
)
def test_the_additional_information_is_javas(reader: str, writer: str, info: str) -> None:
    (found,) = check(parse("AVRO", reader, {}), parse("AVRO", writer, {}))

    assert found.additional_info == info


def test_types_of_references_are_compared_too() -> None:
    def with_size(size: int) -> ParsedSchema:
        part = parse("AVRO", f'{{"type":"fixed","name":"n.F","size":{size}}}', {})
        return parse("AVRO", '{"type":"record","name":"R","fields":[{"name":"f","type":"n.F"}]}', {"f": part})

    assert not check(with_size(4), with_size(4))
    (found,) = check(with_size(4), with_size(8))
    assert (found.type, found.path) == ("FIXED_SIZE_MISMATCH", "/fields/0/type/size")


def test_a_chain_of_records_is_compared_to_its_end_however_long_it_is() -> None:
    def chain(last: str) -> ParsedSchema:
        links = [record(field("next", f"R{index + 1}"), name=f"R{index}") for index in reversed(range(3000))]
        types = parse("AVRO", json.dumps([record(field("end", last), name="R3000"), *links]), {})
        return parse("AVRO", '"R0"', {"types": types})

    (found,) = check(chain("int"), chain("string"))
    assert found.type == "TYPE_MISMATCH"
    assert found.path == "/fields/0/type" * 3001
    assert not check(chain("long"), chain("int"))
