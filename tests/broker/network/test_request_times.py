"""Request timing samples all requests of an idle broker and few of a busy one; the weights add up."""

from __future__ import annotations

import pytest

from ottla.broker.network.request_context import Answer, Api, ApiVersion
from ottla.broker.network.request_times import TimedTurns


def _unused(*_: object) -> Answer:
    return None


class Busy:
    def __init__(self) -> None:
        self.turns = TimedTurns(lambda: 0.0)
        self.served = ApiVersion(Api(0, _unused), 9)
        self.served.timed_at = 1
        self.timed = 0

    def tick(self, requests: int) -> int:
        """Dispatch requests within a tenth of a second and return the number of timed ones."""
        before = self.timed
        for _ in range(requests):
            self.served.requests += 1
            if self.served.requests >= self.served.timed_at:
                self.timed += 1
                self.turns.begin(self.served).sent()
        self.turns.adapt()
        return self.timed - before


def test_every_request_of_a_quiet_broker_is_timed() -> None:
    busy = Busy()
    assert [busy.tick(4) for _ in range(5)] == [4] * 5
    assert busy.turns.of("Produce").phases[0].count == 20


@pytest.mark.parametrize("rate", [50, 700, 10_000])
def test_few_of_a_busy_one_are_and_stand_for_the_rest(rate: int) -> None:
    busy = Busy()
    busy.tick(rate)
    timed = [busy.tick(rate) for _ in range(40)]
    assert max(timed) <= 20
    assert sum(timed) >= 40
    weight = busy.turns.of("Produce").phases[0].count
    assert weight == pytest.approx(busy.served.requests, rel=0.25)


def test_after_a_burst_all_are_timed_again() -> None:
    busy = Busy()
    for _ in range(3):
        busy.tick(10_000)
    busy.tick(0)
    assert busy.tick(3) == 3


def test_fetches_of_followers_are_kept_apart() -> None:
    turns = TimedTurns(lambda: 0.0)
    fetch = ApiVersion(Api(1, _unused), 17)
    for is_of_follower in (True, False, False):
        fetch.requests += 1
        timing = turns.begin(fetch)
        timing.is_of_follower = is_of_follower
        timing.sent()
    counts = {name: times.phases[0].count for name, times in turns}
    assert counts == {"Fetch": 3, "FetchConsumer": 2, "FetchFollower": 1}
