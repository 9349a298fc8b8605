"""Promise: no record is lost, duplicated or reordered while everything runs at once on a secured cluster with faults.

OTTLA_SOAK_SECONDS sets the duration of the faults (60). OTTLA_SOAK_SEED repeats their order. `make soak` runs an hour.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.soak.plot import write_plot
from tests.soak.resources import Resources, Sample

SECONDS = float(os.environ.get("OTTLA_SOAK_SECONDS", "60"))
SEED = int(os.environ.get("OTTLA_SOAK_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 1200)
def test_everything_at_once_survives_faults(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from tests.soak.__main__ import soak

    print(f"\nOTTLA_SOAK_SEED={SEED} OTTLA_SOAK_SECONDS={SECONDS:g}; logs in {tmp_path}")
    assert soak(tmp_path, SECONDS, 10.0, SEED, tmp_path / "soak.svg") == []
    assert (tmp_path / "soak.svg").read_text().startswith("<svg")


def trend_of(values: list[tuple[float, int]]) -> bool:
    resources = Resources(dict, every=1)
    resources._begun -= len(values)
    resources.samples["broker"] = [Sample(float(at), mb, files, 1) for at, (mb, files) in enumerate(values)]
    [trend] = resources.trends()
    return trend.is_flat


def test_a_process_that_has_grown_in_the_first_half_only_is_flat() -> None:
    assert trend_of([(100.0 + min(at, 400), 50) for at in range(1000)])
    assert trend_of([(300.0 + at % 20, 50 + at % 7) for at in range(1000)])


def test_a_leak_of_memory_or_of_files_is_noticed() -> None:
    assert not trend_of([(300.0 + at / 5, 50) for at in range(1000)])
    assert not trend_of([(300.0, 50 + at // 10) for at in range(1000)])


def test_a_plot_has_a_line_for_each_process_and_a_mark_for_each_fault(tmp_path: Path) -> None:
    samples = {
        "broker 0": [Sample(0.0, 100.0, 10, 1), Sample(60.0, 110.0, 11, 1)],
        "spark JVM": [Sample(5.0, 1e3, 99, 1)],
    }
    write_plot(tmp_path / "plot.svg", samples, [(20.0, "broker killed")], "1 minute")
    text = (tmp_path / "plot.svg").read_text()
    assert text.count("<polyline") == 4
    assert text.count("<title>broker killed</title>") == 2
