"""Replica placement."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ottla.cluster.topics.topic_decisions import (
    check_manual_assignment,
    check_manual_replicas,
    place_more_replicas,
    place_replicas,
)
from ottla.protocol.errors import ErrorCode, KafkaError

dice = st.integers(0, 50)


@st.composite
def clusters(draw: st.DrawFn, *, racks: bool) -> dict[int, str | None]:
    ids = draw(st.lists(st.integers(0, 1000), min_size=1, max_size=12, unique=True))
    names = st.sampled_from(["a", "b", "c", "d"])
    return {broker: draw(names) if racks else None for broker in ids}


@st.composite
def balanced_clusters(draw: st.DrawFn) -> dict[int, str | None]:
    """Return clusters with equally many brokers in each rack."""
    racks, each = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    ids = draw(st.permutations(range(racks * each)))
    return {broker: f"rack-{index % racks}" for index, broker in enumerate(ids)}


def followers_and_leaders(placed: dict[int, tuple[int, ...]]) -> Counter[int]:
    return Counter(broker for replicas in placed.values() for broker in replicas)


@given(st.booleans().flatmap(lambda racks: clusters(racks=racks)), st.integers(1, 60), dice, dice, st.data())
def test_replicas_are_different_brokers_and_leaders_take_turns(
    brokers: dict[int, str | None], partitions: int, start: int, shift: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    placed = place_replicas(brokers, partitions, factor, start_index=start, shift=shift)
    assert list(placed) == list(range(partitions))
    for replicas in placed.values():
        assert len(replicas) == len(set(replicas)) == factor
        assert set(replicas) <= set(brokers)
    leaders = Counter(replicas[0] for replicas in placed.values())
    least = min(leaders.get(broker, 0) for broker in brokers)
    assert max(leaders.values()) - least <= 1


@given(clusters(racks=False), st.integers(1, 6), dice, dice, st.data())
def test_without_racks_whole_rounds_are_spread_evenly(
    brokers: dict[int, str | None], rounds: int, start: int, shift: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    placed = place_replicas(brokers, rounds * len(brokers), factor, start_index=start, shift=shift)
    assert set(followers_and_leaders(placed).values()) == {rounds * factor}


@given(clusters(racks=True), st.integers(1, 40), dice, dice, st.data())
def test_replicas_lie_in_as_many_racks_as_there_are(
    brokers: dict[int, str | None], partitions: int, start: int, shift: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    racks = len(set(brokers.values()))
    for replicas in place_replicas(brokers, partitions, factor, start_index=start, shift=shift).values():
        assert len({brokers[broker] for broker in replicas}) == min(factor, racks)


@given(balanced_clusters(), st.integers(1, 4), dice, dice, st.data())
def test_with_equal_racks_whole_rounds_are_spread_evenly(
    brokers: dict[int, str | None], rounds: int, start: int, shift: int, data: st.DataObject
) -> None:
    racks = len(set(brokers.values()))
    # Kafka guarantees it if the replicas fit the racks.
    factor = data.draw(st.integers(1, racks))
    placed = place_replicas(brokers, rounds * len(brokers), factor, start_index=start, shift=shift)
    assert set(followers_and_leaders(placed).values()) == {rounds * factor}


@given(clusters(racks=True), st.integers(1, 20), dice, dice)
def test_a_broker_without_a_rack_puts_racks_out_of_account(
    brokers: dict[int, str | None], partitions: int, start: int, shift: int
) -> None:
    some = {**brokers, min(brokers): None}
    none = dict.fromkeys(brokers)
    placed = place_replicas(some, partitions, len(brokers), start_index=start, shift=shift)
    assert placed == place_replicas(none, partitions, len(brokers), start_index=start, shift=shift)


def test_the_example_of_kafkas_documentation() -> None:
    placed = place_replicas(dict.fromkeys(range(5)), 10, 3, start_index=0, shift=0)
    assert list(placed.values()) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_neighbours_in_the_list_are_in_different_racks() -> None:
    racks: dict[int, str | None] = {0: "1", 1: "3", 2: "3", 3: "2", 4: "2", 5: "1"}
    placed = place_replicas(racks, 6, 1, start_index=0, shift=0)
    assert [replicas[0] for replicas in placed.values()] == [0, 3, 1, 5, 4, 2]


@given(clusters(racks=False), st.integers(1, 20), st.integers(1, 20), dice, dice, st.data())
def test_added_partitions_follow_those_that_are_there(
    brokers: dict[int, str | None], existing: int, more: int, start: int, shift: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    first = place_replicas(brokers, existing, factor, start_index=start, shift=shift)
    added = place_more_replicas(brokers, first, more)
    assert list(added) == list(range(existing, existing + more))
    leaders = Counter(replicas[0] for replicas in (first | added).values())
    assert max(leaders.values()) - min(leaders.get(broker, 0) for broker in brokers) <= 1


@given(clusters(racks=False), dice)
def test_more_replicas_than_brokers_are_refused(brokers: dict[int, str | None], start: int) -> None:
    with pytest.raises(KafkaError) as refused:
        place_replicas(brokers, 1, len(brokers) + 1, start_index=start, shift=0)
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


@given(clusters(racks=False), st.integers(1, 20), dice, dice)
def test_a_placement_is_a_valid_manual_assignment(
    brokers: dict[int, str | None], partitions: int, start: int, shift: int
) -> None:
    assume(len(brokers) > 1)
    placed = place_replicas(brokers, partitions, 2, start_index=start, shift=shift)
    assert check_manual_assignment(list(placed.items()), brokers) == placed


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ([(0, [])], "The manual partition assignment includes an empty replica list."),
        ([(0, [1, 1])], "The manual partition assignment includes the broker 1 more than once."),
        ([(0, [9])], "The manual partition assignment includes broker 9, but no such broker is registered."),
        ([(0, [1]), (2, [1])], "partitions should be a consecutive 0-based integer sequence"),
        ([(1, [1])], "partitions should be a consecutive 0-based integer sequence"),
        ([(0, [1]), (0, [2])], "Found multiple manual partition assignments for partition 0"),
        (
            [(0, [1]), (1, [1, 2])],
            "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with "
            "previous partitions, which have 1 replica(s).",
        ),
    ],
)
def test_a_manual_assignment_that_makes_no_sense_is_refused(
    assignment: list[tuple[int, list[int]]], message: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        check_manual_assignment(assignment, {1, 2})
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def test_a_manual_assignment_is_kept_as_it_is() -> None:
    assert check_manual_assignment([(1, [2, 1]), (0, [1, 2])], {1, 2}) == {1: (2, 1), 0: (1, 2)}
    check_manual_replicas([2], {1, 2}, None)
