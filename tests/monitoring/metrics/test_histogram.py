"""Buckets are a quarter of a doubling wide, and quantiles cover the last two rounds."""

from __future__ import annotations

import random

import pytest

from ottla.monitoring.metrics.text import Histogram


def test_nothing_has_no_quantile() -> None:
    assert Histogram().quantile(0.99) == 0.0


@pytest.mark.parametrize("value", [0, 1, 3, 4, 7, 8, 1000, 123_456, 2**39, 2**50])
def test_a_value_is_found_in_its_own_bucket(value: int) -> None:
    histogram = Histogram()
    histogram.add(value)
    found = histogram.quantile(0.5)
    if value < 2**40:
        assert value * 0.8 - 1 <= found <= value * 1.25 + 1
    else:
        assert found > 2**39


def test_quantiles_are_near_those_of_the_values() -> None:
    values = sorted(int(random.Random(7).lognormvariate(6, 2)) for _ in range(20_000))
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    for quantile in (0.5, 0.75, 0.95, 0.99, 0.999):
        exact = values[int(quantile * len(values))]
        assert histogram.quantile(quantile) == pytest.approx(exact, rel=0.2)
    assert histogram.count == len(values)
    assert histogram.total == sum(values)


def test_a_weight_stands_for_so_many_values() -> None:
    weighted, single = Histogram(), Histogram()
    weighted.add(100, 9)
    weighted.add(10_000)
    for _ in range(9):
        single.add(100)
    single.add(10_000)
    assert (weighted.count, weighted.total) == (single.count, single.total)
    assert weighted.quantile(0.95) == single.quantile(0.95)


def test_quantiles_forget_and_counts_do_not() -> None:
    histogram = Histogram()
    histogram.add(1_000_000)
    histogram.rotate()
    histogram.add(4)
    assert histogram.quantile(0.999) > 500_000
    histogram.rotate()
    assert histogram.quantile(0.999) < 10
    assert histogram.count == 2
