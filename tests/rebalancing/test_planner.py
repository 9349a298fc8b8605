"""Plans that even out what brokers carry, over clusters that hypothesis makes up."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.rebalancing.layout import Layout, PartitionName, Placed
from ottla.rebalancing.planner import TooFewBrokers, plan

State = tuple[dict[PartitionName, Placed], dict[int, str | None]]


@st.composite
def clusters(draw: st.DrawFn) -> State:
    """Some brokers, with racks or without, some of them empty; partitions of any factor anywhere."""
    brokers = draw(st.integers(1, 7))
    rack = st.sampled_from(["a", "b", "c"]) if draw(st.booleans()) else st.none()
    racks = {broker: draw(rack) for broker in range(brokers)}
    used = draw(st.integers(1, brokers))
    sizes = draw(st.sampled_from([st.just(0), st.just(1000), st.integers(0, 10_000)]))
    partitions = {}
    for topic in draw(st.lists(st.sampled_from("tuvw"), max_size=4, unique=True)):
        factor = draw(st.integers(1, used))
        for index in range(draw(st.integers(1, 8))):
            replicas = draw(st.permutations(range(used)))[:factor]
            movable = draw(st.integers(0, 9)) > 0
            partitions[topic, index] = Placed(tuple(replicas), draw(sizes), movable)
    return partitions, racks


def applied(
    partitions: Mapping[PartitionName, Placed], changed: Mapping[PartitionName, tuple[int, ...]]
) -> dict[PartitionName, Placed]:
    return {
        name: Placed(changed.get(name, each.replicas), each.size, each.movable)
        for name, each in partitions.items()
    }


def counts(partitions: Mapping[PartitionName, Placed], brokers: int) -> list[int]:
    held = [broker for each in partitions.values() for broker in each.replicas]
    return [held.count(broker) for broker in range(brokers)]


def leaders(partitions: Mapping[PartitionName, Placed], brokers: int) -> list[int]:
    led = [each.replicas[0] for each in partitions.values()]
    return [led.count(broker) for broker in range(brokers)]


def even(brokers: int, partitions: int, factor: int = 1, size: int = 100) -> dict[PartitionName, Placed]:
    return {
        ("t", index): Placed(tuple((index + k) % brokers for k in range(factor)), size)
        for index in range(partitions)
    }


# What holds of every plan


@given(clusters())
@settings(max_examples=300, deadline=None)
def test_a_plan_keeps_factors_and_puts_no_replica_twice_on_a_broker(state: State) -> None:
    partitions, racks = state
    for name, replicas in plan(partitions, racks).items():
        assert replicas != partitions[name].replicas
        assert len(replicas) == len(partitions[name].replicas)
        assert len(set(replicas)) == len(replicas)
        assert set(replicas) <= set(racks)
        assert partitions[name].movable


@given(clusters())
@settings(max_examples=300, deadline=None)
def test_a_plan_makes_no_partition_share_racks_more_than_it_did(state: State) -> None:
    partitions, racks = state
    layout = Layout(partitions, racks)
    for name, replicas in plan(partitions, racks).items():
        assert layout.crowding(replicas) <= layout.crowding(partitions[name].replicas)


@given(clusters())
@settings(max_examples=300, deadline=None)
def test_a_plan_makes_nothing_worse_that_comes_before_what_it_makes_better(state: State) -> None:
    partitions, racks = state
    changed = plan(partitions, racks)
    before, after = Layout(partitions, racks).score(), Layout(applied(partitions, changed), racks).score()
    assert after < before if changed else after == before


@given(clusters())
@settings(max_examples=300, deadline=None)
def test_a_second_plan_is_empty(state: State) -> None:
    partitions, racks = state
    assert plan(applied(partitions, plan(partitions, racks)), racks) == {}


@given(clusters(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_a_plan_does_not_depend_on_the_order_in_which_things_are_told(state: State, random: object) -> None:
    partitions, racks = state
    names, brokers = list(partitions), list(racks)
    random.shuffle(names)  # type: ignore[attr-defined]
    random.shuffle(brokers)  # type: ignore[attr-defined]
    shuffled = {name: partitions[name] for name in names}, {broker: racks[broker] for broker in brokers}
    assert plan(*shuffled) == plan(partitions, racks)


@given(clusters(), st.integers(0, 6))
@settings(max_examples=300, deadline=None)
def test_a_broker_that_is_drained_has_nothing_left(state: State, broker: int) -> None:
    partitions, racks = state
    left = len(set(racks) - {broker})
    if any(broker in each.replicas and len(each.replicas) > left for each in partitions.values()):
        with pytest.raises(TooFewBrokers):
            plan(partitions, racks, drained=[broker])
        return
    after = applied(partitions, plan(partitions, racks, drained=[broker]))
    assert all(broker not in each.replicas for each in after.values())
    assert plan(after, racks, drained=[broker]) == {}


@given(clusters())
@settings(max_examples=200, deadline=None)
def test_leaders_alone_can_be_evened_out_without_a_byte_being_copied(state: State) -> None:
    partitions, racks = state
    for name, replicas in plan(partitions, racks, leaders_only=True).items():
        assert set(replicas) == set(partitions[name].replicas)


@given(st.integers(1, 6), st.integers(1, 30), st.integers(1, 3), st.data())
@settings(max_examples=200, deadline=None)
def test_without_racks_every_broker_gets_as_many_replicas_and_leaders_as_the_others(
    brokers: int, number: int, factor: int, data: st.DataObject
) -> None:
    factor = min(factor, brokers)
    any_order = st.permutations(range(brokers))
    partitions = {("t", index): Placed(tuple(data.draw(any_order)[:factor])) for index in range(number)}
    after = applied(partitions, plan(partitions, dict.fromkeys(range(brokers))))
    replicas, led = counts(after, brokers), leaders(after, brokers)
    assert max(replicas) - min(replicas) <= 1
    assert max(led) - min(led) <= 1


# Examples


def test_what_is_even_stays() -> None:
    assert plan(even(3, 9, factor=2), dict.fromkeys(range(3))) == {}


def test_a_broker_that_was_added_gets_its_share_and_nothing_else_moves() -> None:
    partitions = even(3, 12)
    changed = plan(partitions, dict.fromkeys(range(4)))
    assert sorted(changed.values()) == [(3,)] * 3
    assert counts(applied(partitions, changed), 4) == [3, 3, 3, 3]


def test_no_more_is_moved_than_is_needed() -> None:
    partitions = {("t", index): Placed((0,), 100) for index in range(10)}
    changed = plan(partitions, dict.fromkeys(range(2)))
    assert len(changed) == 5


def test_bytes_are_evened_out_by_exchanging_large_against_small() -> None:
    partitions = {("t", index): Placed((index % 2,), 1000 if index % 2 else 10) for index in range(8)}
    after = applied(partitions, plan(partitions, dict.fromkeys(range(2))))
    sizes = [sum(each.size for each in after.values() if each.replicas == (b,)) for b in range(2)]
    assert sizes == [2020, 2020]
    assert counts(after, 2) == [4, 4]


def test_bytes_within_the_tolerance_are_left_alone() -> None:
    partitions = {("t", index): Placed((index % 2,), 105 if index % 2 else 95) for index in range(8)}
    assert plan(partitions, dict.fromkeys(range(2))) == {}
    assert plan(partitions, dict.fromkeys(range(2)), tolerance=0.01) != {}


def test_replicas_that_share_a_rack_are_parted() -> None:
    racks = {0: "a", 1: "a", 2: "b", 3: "b"}
    partitions = {("t", 0): Placed((0, 1), 10), ("t", 1): Placed((2, 3), 10)}
    after = applied(partitions, plan(partitions, racks))
    for each in after.values():
        assert {racks[broker] for broker in each.replicas} == {"a", "b"}


def test_a_replica_goes_by_way_of_another_broker_where_it_cannot_go_directly() -> None:
    # What 0 has is on 2 already; 1 can take from 0 and give to 2.
    partitions = {
        ("t", 0): Placed((0, 2)),
        ("t", 1): Placed((0, 2)),
        ("u", 0): Placed((1,)),
        ("v", 0): Placed((0,), movable=False),
        ("v", 1): Placed((0,), movable=False),
        ("v", 2): Placed((1,), movable=False),
    }
    after = applied(partitions, plan(partitions, dict.fromkeys(range(3))))
    assert counts(after, 3) == [3, 2, 3] or max(counts(after, 3)) - min(counts(after, 3)) <= 1


def test_a_partition_that_may_not_be_moved_is_drained_all_the_same() -> None:
    partitions = {("t", 0): Placed((0, 1), 10, movable=False)}
    assert plan(partitions, dict.fromkeys(range(3)), drained=[1]) == {("t", 0): (0, 2)}


def test_a_broker_that_is_gone_is_drained() -> None:
    partitions = {("t", 0): Placed((9, 1), 10)}
    assert plan(partitions, dict.fromkeys(range(3)), drained=[9])[("t", 0)][1] == 1


def test_a_partition_with_more_replicas_than_brokers_is_named() -> None:
    with pytest.raises(TooFewBrokers) as caught:
        plan(even(3, 3, factor=3), dict.fromkeys(range(3)), drained=[2])
    assert caught.value.name == ("t", 0)
    assert (caught.value.replicas, caught.value.brokers) == (3, 2)


def test_thousands_of_partitions_are_planned_in_seconds() -> None:
    partitions = even(11, 1500, factor=3, size=1)
    partitions |= {("u", index): Placed((index % 4,), index % 997) for index in range(500)}
    racks: dict[int, str | None] = {broker: "abc"[broker % 3] for broker in range(12)}
    after = applied(partitions, plan(partitions, racks))
    assert max(counts(after, 12)) - min(counts(after, 12)) <= 1
