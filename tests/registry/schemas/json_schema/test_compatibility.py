from __future__ import annotations

import pytest

from ottla.registry.schemas import check, parse
from tests.registry.schemas.json_schema.cases import CASES, Case


def test_the_table_is_large_enough_and_names_each_case_once() -> None:
    assert len(CASES) >= 300
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_only_widening_is_compatible(case: Case) -> None:
    new, old = (parse("JSON", text, {}) for text in case.texts())

    found = check(new, old)

    assert tuple(f"{each.type} {each.path}" for each in found) == case.expected


@pytest.mark.parametrize("case", [case for case in CASES if case.expected], ids=lambda case: case.name)
def test_lenient_lets_properties_come_and_go(case: Case) -> None:
    new, old = (parse("JSON", text, {}) for text in case.texts())

    found = check(new, old, "LENIENT")

    expected = case.expected if case.lenient is None else case.lenient
    assert tuple(f"{each.type} {each.path}" for each in found) == expected
