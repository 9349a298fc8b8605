"""Promises of the sticky assignor: every task is active once, the load is even, and few tasks move."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.groups.streams.assignor import TaskMember, assign_sticky
from ottla.coordinator.groups.streams.streams_state import Task, TaskIds, Tasks

COUNTS = st.dictionaries(st.sampled_from("01234"), st.integers(1, 6), max_size=4)
# Member → process
PROCESSES = st.dictionaries(st.sampled_from([f"m{n}" for n in range(8)]), st.sampled_from("pqrs"), min_size=1)


def tasks(ids: TaskIds) -> set[Task]:
    return {Task(subtopology, p) for subtopology, partitions in ids.items() for p in partitions}


def all_tasks(counts: dict[str, int]) -> set[Task]:
    return {Task(subtopology, p) for subtopology, count in counts.items() for p in range(count)}


def members(processes: dict[str, str], before: dict[str, Tasks] | None = None) -> dict[str, TaskMember]:
    return {m: TaskMember(process, (before or {}).get(m, Tasks())) for m, process in processes.items()}


def check(
    counts: dict[str, int], processes: dict[str, str], targets: dict[str, Tasks], standbys: int = 0
) -> None:
    assert targets.keys() == processes.keys()
    active = Counter(task for target in targets.values() for task in tasks(target.active))
    assert active == Counter(all_tasks(counts)), "every task is active exactly once"
    loads = [len(tasks(target.active)) for target in targets.values()]
    assert max(loads) - min(loads) <= 1, "members differ by one active task at most"
    replicas = min(standbys, len(set(processes.values())) - 1)
    for task in all_tasks(counts):
        having = [processes[m] for m, t in targets.items() if task in tasks(t.active) | tasks(t.standby)]
        assert len(set(having)) == len(having) == 1 + replicas, "copies are on processes of their own"


@given(COUNTS, PROCESSES, st.integers(0, 3))
def test_every_task_is_active_once_and_its_standbys_are_elsewhere(
    counts: dict[str, int], processes: dict[str, str], standbys: int
) -> None:
    check(counts, processes, assign_sticky(members(processes), counts, counts, standbys), standbys)


@given(COUNTS, PROCESSES, PROCESSES, st.integers(0, 2))
def test_the_promises_hold_whatever_was_before(
    counts: dict[str, int], before: dict[str, str], after: dict[str, str], standbys: int
) -> None:
    first = assign_sticky(members(before), counts, counts, standbys)
    check(counts, after, assign_sticky(members(after, first), counts, counts, standbys), standbys)


@given(COUNTS, COUNTS, PROCESSES)
def test_the_promises_hold_when_the_number_of_tasks_changes(
    before: dict[str, int], after: dict[str, int], processes: dict[str, str]
) -> None:
    first = assign_sticky(members(processes), before)
    check(after, processes, assign_sticky(members(processes, first), after))


@given(COUNTS, PROCESSES, st.integers(0, 2))
def test_nothing_moves_where_nothing_has_changed(
    counts: dict[str, int], processes: dict[str, str], standbys: int
) -> None:
    first = assign_sticky(members(processes), counts, counts, standbys)
    again = assign_sticky(members(processes, first), counts, counts, standbys)
    assert again == first


@given(COUNTS, PROCESSES, st.sampled_from("pqrs"))
def test_a_new_member_takes_tasks_and_nobody_else_does(
    counts: dict[str, int], processes: dict[str, str], process: str
) -> None:
    first = assign_sticky(members(processes), counts)
    joined = assign_sticky(members({**processes, "new": process}, first), counts)
    for member_id in processes:
        assert tasks(joined[member_id].active) <= tasks(first[member_id].active)


@given(COUNTS, PROCESSES)
def test_who_stays_keeps_its_tasks_when_another_leaves(
    counts: dict[str, int], processes: dict[str, str]
) -> None:
    first = assign_sticky(members(processes), counts)
    rest = dict(sorted(processes.items())[1:])
    for member_id, target in assign_sticky(members(rest, first), counts).items():
        assert tasks(target.active) >= tasks(first[member_id].active)


def test_a_standby_takes_over_because_it_has_the_state() -> None:
    processes = {"a": "p", "b": "q", "c": "r"}
    first = assign_sticky(members(processes), {"0": 6}, ["0"], 1)
    rest = {"b": "q", "c": "r"}
    after = assign_sticky(members(rest, first), {"0": 6}, ["0"], 1)
    moved = tasks(first["a"].active)
    assert moved
    for task in moved:
        heir = next(m for m in rest if task in tasks(after[m].active))
        assert task in tasks(first[heir].standby)


def test_stateless_tasks_have_no_standbys() -> None:
    targets = assign_sticky(members({"a": "p", "b": "q"}), {"0": 2, "1": 2}, ["1"], 1)
    assert {s for target in targets.values() for s in target.standby} == {"1"}


def test_members_get_some_of_each_subtopology() -> None:
    """Matches Kafka 4.3.0."""
    first = assign_sticky(members({"a": "p"}), {"0": 2, "1": 2})
    both = assign_sticky(members({"a": "p", "b": "q"}, first), {"0": 2, "1": 2})
    assert both["a"].active == {"0": {0}, "1": {0}}
    assert both["b"].active == {"0": {1}, "1": {1}}
    assert assign_sticky(members({"a": "p", "b": "q"}), {"0": 2, "1": 2})["a"].active == {"0": {0}, "1": {0}}


def test_without_members_there_is_nothing_to_assign() -> None:
    assert assign_sticky({}, {"0": 2}) == {}
