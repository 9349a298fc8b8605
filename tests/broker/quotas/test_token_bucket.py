"""The token bucket behind the controller mutation quota, driven by a fake clock."""

from __future__ import annotations

import pytest

from ottla.broker.quotas import TokenBucket


def test_a_new_bucket_is_full() -> None:
    assert TokenBucket(11, 1).left(2.0, 100.0) == 22.0


def test_it_fills_at_the_rate_of_the_limit_and_no_further_than_to_the_brim() -> None:
    bucket = TokenBucket(10, 1)
    bucket.spend(15, 2.0, now=0.0)
    assert bucket.left(2.0, now=1.0) == 7.0
    assert bucket.left(2.0, now=100.0) == 20.0


def test_a_debt_is_paid_with_time() -> None:
    bucket = TokenBucket(10, 1)
    bucket.spend(26, 2.0, now=0.0)
    assert bucket.left(2.0, now=0.0) == -6.0
    assert bucket.wait(2.0, now=1.0) == pytest.approx(2.0)
    assert bucket.wait(2.0, now=3.0) == 0.0


def test_a_limit_of_nothing_makes_wait_for_all_windows() -> None:
    bucket = TokenBucket(10, 1)
    bucket.spend(1, 0.0, now=0.0)
    assert bucket.wait(0.0, now=5.0) == 10.0


def test_it_may_be_forgotten_once_nothing_is_owed() -> None:
    bucket = TokenBucket(10, 1)
    bucket.spend(100, 1.0, now=0.0)
    assert not bucket.is_idle(now=50.0)
    bucket.left(1.0, now=200.0)
    assert bucket.is_idle(now=250.0)
