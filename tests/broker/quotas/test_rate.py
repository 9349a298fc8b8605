"""Rates over sliding windows, computed like Kafka's."""

from __future__ import annotations

import pytest

from ottla.broker.quotas import Rate


def test_windows_that_did_not_happen_yet_count_as_empty():
    rate = Rate(11, 1.0)
    rate.record(100, 0.0)
    assert rate.measure(0.0) == pytest.approx(10)
    assert rate.measure(5.0) == pytest.approx(10)
    assert rate.measure(10.0) == pytest.approx(10)


def test_what_lies_behind_the_last_window_is_forgotten():
    rate = Rate(11, 1.0)
    rate.record(100, 0.0)
    rate.record(10, 10.5)
    assert rate.measure(10.9) == pytest.approx(110 / 10.9)
    assert rate.measure(11.0) == pytest.approx(10 / 10.5)
    assert not rate.is_idle(20.0)
    assert rate.is_idle(22.0)


def test_a_steady_stream_has_its_rate():
    rate = Rate(11, 1.0)
    for tick in range(3000):
        rate.record(5, tick / 100)
    assert rate.measure(30.0) == pytest.approx(500, rel=0.11)


def test_the_excess_is_how_long_to_wait():
    rate = Rate(11, 1.0)
    rate.record(200, 0.0)
    assert rate.excess(20, 0.0) == 0
    assert rate.excess(10, 0.0) == pytest.approx(10)  # 20/s is twice the limit, over ten seconds
    assert rate.excess(0, 0.0) == 11


def test_nothing_happened_is_no_rate():
    assert Rate(11, 1.0).measure(5.0) == 0
