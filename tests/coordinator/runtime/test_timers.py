from __future__ import annotations

import pytest

from ottla.coordinator.runtime import Timers
from tests.coordinator.clocks import FakeClock


class Bench:
    def __init__(self) -> None:
        self.clock = FakeClock(0)
        self.timers = Timers(self.clock.seconds, self.clock.call_later)
        self.fired: list[tuple[str, int]] = []

    def set(self, key: str, delay_ms: int) -> None:
        self.timers.set(key, delay_ms, lambda: self.fired.append((key, self.clock.now_ms)))


def test_timers_fire_in_order() -> None:
    b = Bench()
    b.set("late", 300)
    b.set("early", 100)
    b.set("now", 0)
    b.clock.pass_ms(299)
    assert b.fired == [("now", 0), ("early", 100)]
    b.clock.pass_ms(1)
    assert b.fired[-1] == ("late", 300)
    assert len(b.timers) == 0


def test_moving_a_deadline_back_costs_no_further_event_loop_timer() -> None:
    b = Bench()
    for _ in range(1_000):
        b.set("session", 10_000)
        b.clock.pass_ms(1)
    assert b.clock.armed == 1
    b.clock.pass_ms(9_998)
    assert b.fired == []
    b.clock.pass_ms(1)
    assert b.fired == [("session", 10_999)]


def test_a_deadline_can_be_moved_forward() -> None:
    b = Bench()
    b.set("a", 1_000)
    b.set("a", 10)
    b.clock.pass_ms(2_000)
    assert b.fired == [("a", 10)]


def test_a_cancelled_timer_does_not_fire() -> None:
    b = Bench()
    b.set("a", 10)
    b.timers.cancel("a")
    b.timers.cancel("never set")
    b.clock.pass_ms(20)
    assert b.fired == []


def test_left_overs_do_not_pile_up() -> None:
    b = Bench()
    for _ in range(10_000):
        b.set("a", 1_000_000)
        b.timers.cancel("a")
    b.set("a", 5)
    assert len(b.timers._heap) < 100
    b.clock.pass_ms(5)
    assert b.fired == [("a", 5)]


def test_a_callback_may_set_its_own_timer_again() -> None:
    b = Bench()
    times: list[int] = []

    def tick() -> None:
        times.append(b.clock.now_ms)
        b.timers.set("tick", 100, tick)

    b.timers.set("tick", 100, tick)
    b.clock.pass_ms(350)
    assert times == [100, 200, 300]


def test_a_failing_callback_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    b = Bench()
    b.timers.set("bad", 1, lambda: 1 // 0)
    b.set("good", 2)
    b.clock.pass_ms(2)
    assert b.fired == [("good", 2)]
    assert "bad" in caplog.text


def test_closing_forgets_everything() -> None:
    b = Bench()
    b.set("a", 10)
    b.timers.close()
    b.clock.pass_ms(20)
    assert b.fired == []
    assert b.clock.armed == 0
