from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.groups.modern.target_assignment import (
    ASSIGNORS,
    Subscriber,
    assign_range,
    assign_uniform,
)

T, U = b"t" * 16, b"u" * 16


def sizes(assignment: dict[str, object]) -> list[int]:
    return sorted(sum(map(len, parts.values())) for parts in assignment.values())  # type: ignore[attr-defined]


def members(*ids: str, topics: frozenset[bytes] = frozenset((T, U))) -> dict[str, Subscriber]:
    return {member_id: Subscriber(topics, {}) for member_id in ids}


def test_uniform_is_even_over_all_topics_together() -> None:
    assert sizes(dict(assign_uniform(members("a", "b", "c"), {T: 4, U: 4}))) == [2, 3, 3]


def test_range_gives_the_same_numbers_in_each_topic() -> None:
    found = assign_range(members("a", "b"), {T: 3, U: 3})
    assert found == {
        "a": {T: frozenset((0, 1)), U: frozenset((0, 1))},
        "b": {T: frozenset((2,)), U: frozenset((2,))},
    }


def test_range_puts_static_members_first_in_the_order_of_their_names() -> None:
    group = {
        "a": Subscriber(frozenset((T,)), {}),
        "z": Subscriber(frozenset((T,)), {}, "i2"),
        "y": Subscriber(frozenset((T,)), {}, "i1"),
    }
    found = assign_range(group, {T: 3})
    assert [sorted(found[m][T]) for m in ("y", "z", "a")] == [[0], [1], [2]]


def test_uniform_moves_as_few_as_it_can() -> None:
    before = assign_uniform(members("a", "b"), {T: 6})
    group = {m: Subscriber(frozenset((T,)), target) for m, target in before.items()}
    group["c"] = Subscriber(frozenset((T,)), {})
    after = assign_uniform(group, {T: 6})
    assert sizes(dict(after)) == [2, 2, 2]
    assert all(after[m][T] <= before[m][T] for m in ("a", "b"))


@given(
    st.sampled_from(sorted(ASSIGNORS)),
    st.dictionaries(st.sampled_from("abcde"), st.sets(st.sampled_from((T, U))), min_size=1),
    st.integers(0, 7),
    st.integers(0, 7),
)
def test_each_partition_goes_to_exactly_one_subscriber_and_a_second_run_moves_nothing(
    name: str, subscriptions: dict[str, set[bytes]], t: int, u: int
) -> None:
    counts = {T: t, U: u}
    group = {m: Subscriber(frozenset(topics), {}) for m, topics in subscriptions.items()}
    found = ASSIGNORS[name](group, counts)
    given_out = [(t, p) for parts in found.values() for t, ps in parts.items() for p in ps]
    wanted = {(t, p) for topics in subscriptions.values() for t in topics for p in range(counts[t])}
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == wanted
    assert all(found[m].keys() <= subscriptions[m] for m in found)
    again = {m: Subscriber(frozenset(topics), found[m]) for m, topics in subscriptions.items()}
    assert ASSIGNORS[name](again, counts) == found
    if name == "uniform":
        for giver, parts in found.items():
            for topic_id in parts:
                for taker, topics in subscriptions.items():
                    if topic_id in topics:
                        assert sizes({"": parts})[0] <= sizes({"": found[taker]})[0] + 1, (giver, taker)
