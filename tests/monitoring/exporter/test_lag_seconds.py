"""Lag in seconds: the age of the message that a group reads next."""

from __future__ import annotations

import pytest

from ottla.monitoring.lag_seconds import EndHistory

HERE = ("orders", 0)


@pytest.fixture
def steady() -> EndHistory:
    """Ten messages a second for a minute."""
    history = EndHistory()
    for second in range(0, 61, 10):
        history.add(float(second), {HERE: second * 10})
    return history


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(600, 0.0), (700, 0.0), (550, 5.0), (300, 30.0), (0, 60.0)],
)
def test_the_age_is_found_between_known_ends(steady: EndHistory, offset: int, expected: float) -> None:
    assert steady.seconds(60.0, HERE, offset) == pytest.approx(expected)


def test_older_offsets_are_estimated_from_the_whole_history() -> None:
    history = EndHistory()
    history.add(0.0, {HERE: 1000})
    assert history.seconds(0.0, HERE, 900) is None
    history.add(10.0, {HERE: 1100})
    assert history.seconds(10.0, HERE, 900) == pytest.approx(20.0)


def test_the_age_grows_while_nothing_is_written_and_nothing_is_read(steady: EndHistory) -> None:
    for second in range(70, 6000, 10):
        steady.add(float(second), {HERE: 600})
    assert steady.seconds(6000.0, HERE, 550) == pytest.approx(5945.0)


def test_a_new_topic_of_the_same_name_begins_again(steady: EndHistory) -> None:
    steady.add(70.0, {HERE: 5})
    assert steady.seconds(70.0, HERE, 5) == 0.0
    assert steady.seconds(70.0, HERE, 1) is None
    steady.add(80.0, {})
    assert steady.seconds(80.0, HERE, 1) is None
