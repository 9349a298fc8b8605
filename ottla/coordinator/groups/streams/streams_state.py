"""State of a streams group (KIP-1071): plain data, replaced and never modified in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import NamedTuple, Self

from ottla.coordinator.groups.modern.consumer_state import FIRST_EPOCH
from ottla.coordinator.groups.streams.topology import Topology

# Partitions by subtopology.
TaskIds = Mapping[str, frozenset[int]]
# Partitions by subtopology, each with the epoch of its assignment.
TaskEpochs = Mapping[str, Mapping[int, int]]


class Task(NamedTuple):
    subtopology_id: str
    partition: int


class Role(StrEnum):
    """Role of a member for a task. A warm-up catches up before it becomes active; Kafka 4.3 assigns none."""

    ACTIVE = "active"
    STANDBY = "standby"
    WARMUP = "warmup"


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks of one member: its target, or the tasks it reports."""

    active: TaskIds = field(default_factory=dict)
    standby: TaskIds = field(default_factory=dict)
    warmup: TaskIds = field(default_factory=dict)

    def of(self, role: Role) -> TaskIds:
        found: TaskIds = getattr(self, role.value)
        return found


@dataclass(frozen=True, slots=True)
class TasksWithEpochs:
    """Tasks held by one member. Active tasks carry their assignment epoch; all others have epoch 0."""

    active: TaskEpochs = field(default_factory=dict)
    standby: TaskEpochs = field(default_factory=dict)
    warmup: TaskEpochs = field(default_factory=dict)

    def of(self, role: Role) -> TaskEpochs:
        found: TaskEpochs = getattr(self, role.value)
        return found

    def ids(self) -> Tasks:
        return Tasks(*(_ids(self.of(role)) for role in Role))

    def tasks(self, role: Role) -> Iterator[Task]:
        return (Task(subtopology, p) for subtopology, held in self.of(role).items() for p in held)

    def overlaps(self, others: Tasks) -> bool:
        return any(
            not others.of(role).get(subtopology, frozenset()).isdisjoint(held)
            for role in Role
            for subtopology, held in self.of(role).items()
        )

    def contains(self, others: Tasks) -> bool:
        return all(
            partitions <= self.of(role).get(subtopology, {}).keys()
            for role in Role
            for subtopology, partitions in others.of(role).items()
        )


NO_TASKS = Tasks()
NO_TASK_EPOCHS = TasksWithEpochs()


def task_ids(tasks: Iterable[Task]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for subtopology, partition in tasks:
        found.setdefault(subtopology, set()).add(partition)
    return {subtopology: frozenset(partitions) for subtopology, partitions in sorted(found.items())}


def _ids(held: TaskEpochs) -> dict[str, frozenset[int]]:
    return {subtopology: frozenset(partitions) for subtopology, partitions in held.items()}


class StreamsGroupState(StrEnum):
    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """Progress of a member towards its target assignment, with the values used in the records."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


class Endpoint(NamedTuple):
    """Address at which an instance answers interactive queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """One thread of an application. The threads of one process share its `process_id`."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    # Current assignment, reconciled towards the target.
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: TasksWithEpochs = NO_TASK_EPOCHS
    revoking: TasksWithEpochs = NO_TASK_EPOCHS

    def metadata(self) -> tuple[object, ...]:
        """Return the contents of the member's metadata record."""
        return (
            self.rack_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.topology_epoch,
            self.process_id,
            self.user_endpoint,
            self.client_tags,
        )

    def current(self) -> tuple[object, ...]:
        """Return the contents of the member's assignment record."""
        return (self.epoch, self.previous_epoch, self.state, self.assigned, self.revoking)

    def at(
        self,
        epoch: int,
        state: MemberState,
        assigned: TasksWithEpochs,
        revoking: TasksWithEpochs = NO_TASK_EPOCHS,
    ) -> StreamsMember:
        """Return the member in its next epoch. `previous_epoch` serves a member that missed the response."""
        return replace(
            self, epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, revoking=revoking
        )


@dataclass(slots=True)
class StreamsState:
    """State of a streams group as stored in its records."""

    epoch: int = 0
    metadata_hash: int = 0
    validated_topology_epoch: int = -1
    assignment_configs: tuple[tuple[str, str], ...] = ()
    topology: Topology | None = None
    members: dict[str, StreamsMember] = field(default_factory=dict)
    targets: dict[str, Tasks] = field(default_factory=dict)
    # Members that join before the first target get the epoch in which the group was created.
    target_epoch: int = FIRST_EPOCH
    target_timestamp_ms: int = 0

    def copy(self) -> Self:
        """Copy the dicts; their values are immutable."""
        return replace(self, members=dict(self.members), targets=dict(self.targets))
