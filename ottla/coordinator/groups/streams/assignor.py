"""The sticky assignor of streams groups.

Every task has exactly one active member, and active task counts differ by at most one. Within this limit tasks stay
where they are. If an active member leaves, a process with a standby of the task takes over. Standbys run on processes
without another copy of the task, so a failing process never takes every copy of a state with it. Like Kafka 4.3, the
assignor creates no warm-up tasks. It ignores racks and tags.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.coordinator.groups.streams.streams_state import NO_TASKS, Task, TaskIds, Tasks, task_ids


class TaskMember(NamedTuple):
    """Assignor's view of a member: process and previous target tasks."""

    process_id: str
    target: Tasks = NO_TASKS


def assign_sticky(
    members: Mapping[str, TaskMember],
    task_counts: Mapping[str, int],
    stateful: Iterable[str] = (),
    num_standby_replicas: int = 0,
) -> dict[str, Tasks]:
    """Assign all tasks. `task_counts` is per subtopology; only tasks of `stateful` subtopologies get standbys."""
    if not members:
        return {}
    tasks = sorted(Task(subtopology, p) for subtopology, count in task_counts.items() for p in range(count))
    assignment = _Assignment(members)
    _assign_active(assignment, tasks)
    if num_standby_replicas:
        replicated = set(stateful)
        stateful_tasks = [task for task in tasks if task.subtopology_id in replicated]
        _assign_standbys(assignment, stateful_tasks, num_standby_replicas)
    return {
        member_id: Tasks(task_ids(assignment.active[member_id]), task_ids(assignment.standby[member_id]))
        for member_id in members
    }


class _Assignment:
    """Assignment under construction."""

    def __init__(self, members: Mapping[str, TaskMember]) -> None:
        self.members = members
        self.by_process: dict[str, list[str]] = defaultdict(list)
        for member_id in sorted(members):
            self.by_process[members[member_id].process_id].append(member_id)
        self.active: dict[str, list[Task]] = {member_id: [] for member_id in members}
        self.standby: dict[str, list[Task]] = {member_id: [] for member_id in members}
        self.processes_with: dict[Task, set[str]] = defaultdict(set)
        self._tasks_of_process: dict[str, int] = dict.fromkeys(self.by_process, 0)

    def give_active(self, member_id: str, task: Task) -> None:
        self._give(self.active, member_id, task)

    def give_standby(self, member_id: str, task: Task) -> None:
        self._give(self.standby, member_id, task)

    def _give(self, to: dict[str, list[Task]], member_id: str, task: Task) -> None:
        to[member_id].append(task)
        process_id = self.members[member_id].process_id
        self.processes_with[task].add(process_id)
        self._tasks_of_process[process_id] += 1

    def load(self, member_id: str) -> int:
        return len(self.active[member_id]) + len(self.standby[member_id])

    def process_load(self, process_id: str) -> float:
        """Return the tasks per thread."""
        return self._tasks_of_process[process_id] / len(self.by_process[process_id])

    def may_have_standby(self, process_id: str, task: Task) -> bool:
        return process_id not in self.processes_with[task]


def _assign_active(assignment: _Assignment, tasks: list[Task]) -> None:
    members = assignment.members
    share, more = divmod(len(tasks), len(members))
    known = set(tasks)
    previous = _owners({member_id: member.target.active for member_id, member in members.items()})
    owned: dict[str, list[Task]] = {member_id: [] for member_id in members}
    # Sort by partition first, so that a member with surplus tasks keeps some of each subtopology.
    for task in sorted(tasks, key=lambda task: (task.partition, task.subtopology_id)):
        for member_id in previous.get(task, ())[:1]:
            owned[member_id].append(task)
    # The largest owners keep the odd tasks; that moves the fewest.
    allowed: dict[str, int] = {}
    for member_id in sorted(members, key=lambda m: (-len(owned[m]), m)):
        allowed[member_id] = share
        if more and len(owned[member_id]) > share:
            allowed[member_id] += 1
            more -= 1
        for task in owned[member_id][: allowed[member_id]]:
            assignment.give_active(member_id, task)
            known.discard(task)
    standbys = _owners({member_id: member.target.standby for member_id, member in members.items()})
    for task in tasks:
        if task not in known:
            continue
        with_state = {members[member_id].process_id for member_id in standbys.get(task, ())}
        candidates = [m for m in members if len(assignment.active[m]) < allowed[m]]
        if more:
            candidates += [m for m in members if len(assignment.active[m]) == allowed[m] == share]
        chosen = min(
            candidates,
            key=lambda m: (
                members[m].process_id not in with_state,
                assignment.process_load(members[m].process_id),
                len(assignment.active[m]),
                # Subtopologies differ in load, so every member gets some tasks of each.
                sum(other.subtopology_id == task.subtopology_id for other in assignment.active[m]),
                m,
            ),
        )
        if len(assignment.active[chosen]) == allowed[chosen]:
            allowed[chosen] += 1
            more -= 1
        assignment.give_active(chosen, task)


def _assign_standbys(assignment: _Assignment, tasks: list[Task], num_standby_replicas: int) -> None:
    members = assignment.members
    wanted = min(num_standby_replicas, len(assignment.by_process) - 1)
    total = sum(map(len, assignment.active.values())) + wanted * len(tasks)
    quota = -(-total // len(members))
    missing = dict.fromkeys(tasks, wanted)
    standbys = _owners({member_id: member.target.standby for member_id, member in members.items()})
    actives = _owners({member_id: member.target.active for member_id, member in members.items()})
    # Prefer processes that already have the state: earlier standbys first, then the previously active member.
    for before in (standbys, actives):
        for task in tasks:
            for member_id in before.get(task, ()):
                if (
                    missing[task]
                    and assignment.load(member_id) < quota
                    and assignment.may_have_standby(members[member_id].process_id, task)
                ):
                    assignment.give_standby(member_id, task)
                    missing[task] -= 1
    for task in tasks:
        for _ in range(missing[task]):
            process_id = min(
                (p for p in assignment.by_process if assignment.may_have_standby(p, task)),
                key=lambda p: (assignment.process_load(p), p),
            )
            assignment.give_standby(min(assignment.by_process[process_id], key=assignment.load), task)


def _owners(by_member: Mapping[str, TaskIds]) -> dict[Task, list[str]]:
    owners: dict[Task, list[str]] = defaultdict(list)
    for member_id in sorted(by_member):
        for subtopology, partitions in by_member[member_id].items():
            for partition in partitions:
                owners[Task(subtopology, partition)].append(member_id)
    return owners
