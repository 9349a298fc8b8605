"""Promise: a connection sends large chunks while it is alone and yields to other connections otherwise."""

from __future__ import annotations

from ottla.broker.network.request_times import Turns


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_turns_are_large_only_after_a_connection_was_alone_for_a_while() -> None:
    clock = Clock()
    turns = Turns(clock)
    turns.note("consumer")
    assert not turns.is_alone("consumer")
    clock.now += 0.2
    turns.note("consumer")
    assert turns.is_alone("consumer")


def test_one_request_of_another_connection_is_enough_to_make_them_small_again() -> None:
    clock = Clock()
    turns = Turns(clock)
    turns.note("consumer")
    clock.now += 10
    turns.note("producer")
    assert not turns.is_alone("consumer")
    turns.note("consumer")
    assert not turns.is_alone("consumer")
    clock.now += 0.05
    turns.note("consumer")
    assert not turns.is_alone("consumer")
    clock.now += 0.06
    assert turns.is_alone("consumer")


def test_a_client_that_asks_ten_times_a_second_never_meets_a_large_turn() -> None:
    clock = Clock()
    turns = Turns(clock)
    for _ in range(100):
        turns.note("producer")
        for _ in range(9):
            clock.now += 0.01
            turns.note("consumer")
            assert not turns.is_alone("consumer")
