"""ISR membership and the high watermark that follows from it."""

from __future__ import annotations

from ottla.cluster.partitions.isr import (
    LONG_AGO,
    Follower,
    InSync,
    committed_offset,
    joining,
    without_laggards,
)
from ottla.cluster.replication.follower_requests import truncation_offset


def follower(end_offset: int, caught_up_at: float = LONG_AGO) -> Follower:
    made = Follower(caught_up_at)
    made.end_offset = end_offset
    return made


def everybody(_: int) -> bool:
    return True


def test_a_follower_is_caught_up_when_it_asks_for_the_end() -> None:
    state = Follower(LONG_AGO)
    state.fetched(3, 0, 5, now=10.0)
    assert not state.is_caught_up(5, now=10.0, max_lag=30.0)
    state.fetched(5, 0, 5, now=11.0)
    assert state.is_caught_up(9, now=40.0, max_lag=30.0)
    assert not state.is_caught_up(9, now=42.0, max_lag=30.0)


def test_a_follower_under_load_is_caught_up_with_what_there_was_when_it_fetched_before() -> None:
    state = Follower(LONG_AGO)
    state.fetched(0, 0, 100, now=1.0)
    state.fetched(100, 0, 200, now=2.0)
    assert state.caught_up_at == 1.0
    state.fetched(200, 0, 300, now=3.0)
    assert state.caught_up_at == 2.0


def test_a_follower_at_the_end_is_in_sync_however_long_ago_it_fetched() -> None:
    assert follower(5).is_caught_up(5, now=1e9, max_lag=30.0)


def test_committed_is_what_everybody_has_who_may_be_in_sync() -> None:
    followers = {1: follower(7), 2: follower(5)}
    assert committed_offset(9, followers, frozenset({0, 1, 2}), 100.0, 30.0, everybody) == 5
    assert committed_offset(9, followers, frozenset({0, 1}), 100.0, 30.0, everybody) == 7
    assert committed_offset(9, followers, frozenset({0}), 100.0, 30.0, everybody) == 9


def test_who_is_about_to_join_is_waited_for_if_it_is_there() -> None:
    followers = {1: follower(7, caught_up_at=99.0)}
    assert committed_offset(9, followers, frozenset({0}), 100.0, 30.0, everybody) == 7
    assert committed_offset(9, followers, frozenset({0}), 100.0, 30.0, lambda _: False) == 9


def test_what_was_asked_counts_until_the_store_has_answered() -> None:
    state = InSync((0, 1, 2), 4)
    state.ask((0, 1))
    assert state.maximal == {0, 1, 2}
    assert not state.learn((0, 2), 4), "old news"
    assert state.learn((0, 1), 5)
    assert (state.isr, state.maximal, state.asked) == ((0, 1), {0, 1}, None)
    state.ask((0, 1, 2))
    assert state.maximal == {0, 1, 2}


def test_what_was_asked_in_vain_counts_as_well() -> None:
    state = InSync((0, 1), 4)
    state.ask((0, 1, 2))
    state.ask((0,))
    assert (state.asked, state.maximal) == ((0,), {0, 1, 2}), "the first may have been written all the same"
    assert state.learn((0,), 5)
    assert state.maximal == {0}


def test_who_lags_for_too_long_is_left_out() -> None:
    followers = {1: follower(9), 2: follower(8, caught_up_at=50.0)}
    assert without_laggards((0, 1, 2), followers, 9, now=70.0, max_lag=30.0) == (0, 1, 2)
    assert without_laggards((0, 1, 2), followers, 9, now=81.0, max_lag=30.0) == (0, 1)


def test_nobody_joins_before_it_has_the_high_watermark_and_the_start_of_the_epoch() -> None:
    """The high watermark of a new leader may be stale, so records committed before its epoch count."""
    followers = {1: follower(7), 2: follower(10)}
    assert joining((0,), followers, 5, 5, everybody) == (1, 2)
    assert joining((0,), followers, 8, 5, everybody) == (2,)
    assert joining((0,), followers, 5, 9, everybody) == (2,)
    assert joining((0, 2), followers, 5, 9, everybody) == ()
    assert joining((0,), followers, 5, 9, lambda _: False) == ()


def test_where_a_log_is_cut() -> None:
    # Both sides know the epoch: truncate to the smaller end offset.
    assert truncation_offset(10, 3, own=(2, 10), leaders=(2, 6)) == 6
    assert truncation_offset(10, 3, own=(2, 8), leaders=(2, 9)) == 8
    # The leader's epoch is unknown here: truncate to the end of the previous epoch.
    assert truncation_offset(10, 3, own=(1, 4), leaders=(2, 6)) == 4
    # No epoch is known.
    assert truncation_offset(10, 3, own=(-1, -1), leaders=(2, 6)) == 6
    assert truncation_offset(10, 3, own=(2, 8), leaders=(-1, -1)) == 3
