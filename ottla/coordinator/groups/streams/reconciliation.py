"""How one member of a streams group comes from the tasks it has to those it is meant to have.

First it gives up what it shall not keep, and stays in its epoch until it says that it has; then it moves to the
epoch of the target with whatever is free; the rest follows when it has been released. An active task is free when no
member has it as active and its own process does not have it at all; a standby when its process does not have the task.
So no task is active twice, and no process opens the state of one task twice.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.coordinator.groups.streams.state import Held, MemberState, Role, StreamsMember, Task, Tasks

IsFree = Callable[[Role, Task], bool]


def reconcile(
    member: StreamsMember, target_epoch: int, target: Tasks, is_free: IsFree, owned: Tasks | None
) -> StreamsMember:
    """`owned`: the tasks that the member says it has, None if it said nothing."""
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        return member
    epoch = member.epoch
    if member.state is MemberState.UNREVOKED_TASKS:
        if _still_owns(owned, member.revoking):
            return member
        epoch += 1  # it has done what its epoch asked for, even if more is asked for by now
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

    def held(self) -> Held:
        by_role: dict[Role, dict[str, dict[int, int]]] = {role: {} for role in Role}
        for role, subtopology, partition, since in self.found:
            by_role[role].setdefault(subtopology, {})[partition] = since
        return Held(*(by_role[role] for role in Role))


def _still_owns(owned: Tasks | None, revoked: Held) -> bool:
    return owned is None or revoked.overlaps(owned)
