"""After damage to any one file of a log directory, no record is lost silently."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.log_cases import Data, build_all, run_case

QUICK = 170
MANY = int(os.environ.get("OTTLA_DAMAGE_CASES", "5000"))
AT_ONCE = 10
MANY_AT_ONCE = 100


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damage")


@pytest.fixture(scope="module")
def data(scratch: Path) -> dict[str, Data]:
    return build_all(scratch)


@pytest.mark.parametrize("first", range(0, QUICK, AT_ONCE))
def test_a_record_is_served_or_refused(data: dict[str, Data], scratch: Path, first: int) -> None:
    done = [run_case(data, seed, scratch) for seed in range(first, first + AT_ONCE)]
    assert len(done) == AT_ONCE


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(100_000, 100_000 + MANY, MANY_AT_ONCE))
def test_a_record_is_served_or_refused_in_thousands_of_cases(
    data: dict[str, Data], scratch: Path, first: int
) -> None:
    done = [run_case(data, seed, scratch) for seed in range(first, first + MANY_AT_ONCE)]
    assert len(done) == MANY_AT_ONCE
