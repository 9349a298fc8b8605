"""Promise: however workers and connectors come and go, no two workers get the same connector, and loads even out."""

from __future__ import annotations

import random

import pytest

from ottla.connect.worker.distributed.assignor import Assignor


def test_connectors_are_spread_evenly_and_stay_where_they_are() -> None:
    assignor = Assignor(0)
    first = assignor.assign(1, {"a": (), "b": ()}, ["c1", "c2", "c3"], 0)
    assert sorted(len(each) for each in first.assigned.values()) == [1, 2]
    again = assignor.assign(2, first.assigned, ["c1", "c2", "c3"], 1)
    assert again.assigned == first.assigned
    assert again.revoked == {"a": set(), "b": set()}


def test_a_connector_moves_in_two_rounds() -> None:
    assignor = Assignor(0)
    connectors = ["c1", "c2"]
    first = assignor.assign(1, {"a": ()}, connectors, 0)
    second = assignor.assign(2, {"a": first.assigned["a"], "b": ()}, connectors, 1)
    [moved] = second.revoked["a"]
    assert second.assigned["b"] == set()
    # No other worker gets the connector until it has stopped.
    waiting = assignor.assign(3, {"a": {"c1", "c2"}, "b": ()}, connectors, 2)
    assert waiting.assigned["b"] == set()
    third = assignor.assign(4, {"a": waiting.assigned["a"], "b": ()}, connectors, 3)
    assert third.assigned["b"] == {moved}


def test_what_a_lost_worker_had_waits_for_it_and_then_goes_elsewhere() -> None:
    connectors = ["c1", "c2"]
    assignor = Assignor(10)
    first = assignor.assign(1, {"a": (), "b": ()}, connectors, 0)
    [left], [lost] = first.assigned["a"], first.assigned["b"]
    gone = assignor.assign(2, {"a": {left}}, connectors, 1)
    assert (gone.assigned, gone.delay) == ({"a": {left}}, 10)
    assert assignor.assign(3, {"a": {left}}, connectors, 5).delay == 6
    back = assignor.assign(4, {"a": {left}, "b2": ()}, connectors, 6)
    assert (back.assigned, back.delay) == ({"a": {left}, "b2": {lost}}, 0)
    assignor.assign(5, {"a": {left}}, connectors, 7)
    over = assignor.assign(6, {"a": {left}}, connectors, 17)
    assert over.assigned == {"a": {"c1", "c2"}}


def test_a_new_leader_knows_of_no_delay() -> None:
    assignor = Assignor(10)
    assignor.assign(1, {"a": (), "b": ()}, ["c1", "c2"], 0)
    later = assignor.assign(5, {"a": ()}, ["c1", "c2"], 1)
    assert later.assigned == {"a": {"c1", "c2"}}


def test_what_two_workers_claim_is_taken_from_both() -> None:
    found = Assignor(0).assign(1, {"a": {"c"}, "b": {"c"}}, ["c"], 0)
    assert found.assigned == {"a": set(), "b": set()}
    assert found.revoked == {"a": {"c"}, "b": {"c"}}


@pytest.mark.parametrize("seed", range(60))
def test_any_history(seed: int) -> None:
    chance = random.Random(seed)
    assignor = Assignor(chance.choice([0, 5]))
    have: dict[str, set[str]] = {f"w{number}": set() for number in range(chance.randint(1, 4))}
    connectors = {f"c{number}" for number in range(chance.randint(0, 20))}
    generation, now, count = 0, 0.0, 4
    for step in range(60):
        generation, now = generation + 1, now + chance.random() * 3
        found = assignor.assign(generation, have, connectors, now)
        given = [each for assigned in found.assigned.values() for each in assigned]
        assert len(given) == len(set(given))
        for member, assigned in found.assigned.items():
            for each in assigned:
                assert each in connectors
                assert all(each not in have[other] for other in have if other != member)
        # Some workers have not yet stopped their revoked connectors.
        have = {
            member: set(assigned) | (have[member] - assigned if chance.random() < 0.3 else set())
            for member, assigned in found.assigned.items()
        }
        event = chance.random()
        if event < 0.1 and len(have) > 1:
            have.pop(chance.choice(sorted(have)))
        elif event < 0.2:
            count += 1
            have[f"w{count}"] = set()
        elif event < 0.3:
            connectors.add(f"c{count}{step}")
        elif event < 0.4 and connectors:
            connectors.discard(sorted(connectors)[0])
    for _ in range(4):
        generation, now = generation + 1, now + 10
        have = assignor.assign(generation, have, connectors, now).assigned
    sizes = [len(each) for each in have.values()]
    assert sum(sizes) == len(connectors)
    assert max(sizes) - min(sizes) <= 1
