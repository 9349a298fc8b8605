from __future__ import annotations

import pytest

from ottla.registry.schemas import check, parse
from tests.registry.schemas.protobuf.cases import CASES, Case


def test_the_table_is_large_enough_and_names_each_case_once() -> None:
    assert len(CASES) >= 300
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_the_wire_carries_over_is_compatible(case: Case) -> None:
    new_text, old_text = case.texts()
    new = parse(
        "PROTOBUF", new_text, {name: parse("PROTOBUF", new, {}) for name, (_, new) in case.imports.items()}
    )
    old = parse(
        "PROTOBUF", old_text, {name: parse("PROTOBUF", old, {}) for name, (old, _) in case.imports.items()}
    )

    found = check(new, old)

    assert tuple(f"{each.type} {each.path}" for each in found) == case.expected


def test_a_message_names_the_field_and_the_new_and_the_old_schema() -> None:
    old = parse("PROTOBUF", 'syntax = "proto3"; message Car { string a = 2; }', {})
    new = parse("PROTOBUF", 'syntax = "proto3"; message Car { int32 a = 2; }', {})

    (found,) = check(new, old)

    assert found.message() == (
        '{errorType:"FIELD_SCALAR_KIND_CHANGED", description:"The kind of a SCALAR field at path \'#/Car/2\' in the '
        'new schema does not match its kind in the old schema"}'
    )
