"""Reconciliation of one streams group member from its current tasks to its target tasks.

A member first revokes tasks outside its target and stays in its epoch until it confirms the revocation. It then moves
to the target epoch with every free task; the rest follow as other members release them.

An active task is free if no member runs it as active and the member's own process does not have it in any role. A
standby is free if its process does not have the task. Therefore no task is active twice, and no process opens the state
of a task twice.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.coordinator.groups.streams.streams_state import (
    MemberState,
    Role,
    StreamsMember,
    Task,
    Tasks,
    TasksWithEpochs,
)

IsFree = Callable[[Role, Task], bool]


def reconcile(
    member: StreamsMember, target_epoch: int, target: Tasks, is_free: IsFree, owned: Tasks | None
) -> StreamsMember:
    """Return the member after one step. `owned` lists the tasks that the member reports, None if omitted."""
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        return member
    epoch = member.epoch
    if member.state is MemberState.UNREVOKED_TASKS:
        if _still_owns(owned, member.revoking):
            return member
        epoch += 1  # the member has completed its epoch, even if a newer target exists by now
    kept, revoked, added = _Collected(), _Collected(), _Collected()
    unreleased = False
    for role in Role:
        wanted_tasks, held_tasks = target.of(role), member.assigned.of(role)
        for subtopology, held in held_tasks.items():
            wanted = wanted_tasks.get(subtopology, frozenset())
            for partition, since in held.items():
                (kept if partition in wanted else revoked).add(role, subtopology, partition, since)
        for subtopology, wanted in wanted_tasks.items():
            for partition in wanted - held_tasks.get(subtopology, {}).keys():
                if is_free(role, Task(subtopology, partition)):
                    since = target_epoch if role is Role.ACTIVE else 0
                    added.add(role, subtopology, partition, since)
                else:
                    unreleased = True
    if revoked.found and _still_owns(owned, revoked.held()):
        return member.at(epoch, MemberState.UNREVOKED_TASKS, kept.held(), revoked.held())
    kept.update(added)
    state = MemberState.UNRELEASED_TASKS if unreleased else MemberState.STABLE
    return member.at(target_epoch, state, kept.held())


class _Collected:
    """Tasks with their epochs, by role."""

    def __init__(self) -> None:
        self.found: list[tuple[Role, str, int, int]] = []

    def add(self, role: Role, subtopology: str, partition: int, since: int) -> None:
        self.found.append((role, subtopology, partition, since))

    def update(self, others: _Collected) -> None:
        self.found += others.found

    def held(self) -> TasksWithEpochs:
        by_role: dict[Role, dict[str, dict[int, int]]] = {role: {} for role in Role}
        for role, subtopology, partition, since in self.found:
            by_role[role].setdefault(subtopology, {})[partition] = since
        return TasksWithEpochs(*(by_role[role] for role in Role))


def _still_owns(owned: Tasks | None, revoked: TasksWithEpochs) -> bool:
    return owned is None or revoked.overlaps(owned)
