"""After damage to any one file, a broker serves every record or names the damaged file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.broker_cases import BrokerData, run_case

QUICK = 30
MANY = int(os.environ.get("OTTLA_DAMAGE_CASES", "5000")) // 20
AT_ONCE = 5
MANY_AT_ONCE = 25


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damage")


@pytest.fixture(scope="module")
def data(scratch: Path) -> BrokerData:
    return BrokerData(scratch)


@pytest.mark.parametrize("first", range(0, QUICK, AT_ONCE))
def test_a_record_is_served_or_refused_by_a_broker(data: BrokerData, scratch: Path, first: int) -> None:
    done = [run_case(data, seed, scratch) for seed in range(first, first + AT_ONCE)]
    assert len(done) == AT_ONCE


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(100_000, 100_000 + MANY, MANY_AT_ONCE))
def test_a_record_is_served_or_refused_by_a_broker_in_hundreds_of_cases(
    data: BrokerData, scratch: Path, first: int
) -> None:
    done = [run_case(data, seed, scratch) for seed in range(first, first + MANY_AT_ONCE)]
    assert len(done) == MANY_AT_ONCE
