"""State of a streams group: members, their heartbeats, and their reconciliation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple, Self

from ottla.coordinator.groups.modern.consumer_state import FIRST_EPOCH
from ottla.coordinator.groups.streams.topology import ConfiguredTopology, InternalTopic, Status, Topology
from ottla.protocol.errors import ErrorCode

# State of a streams group (KIP-1071): plain data, replaced and never modified in place.

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


# Inputs and outputs of a streams group: heartbeats, their results, descriptions. Plain data.

# Partitions by topic.
_Partitions = dict[str, list[int]]


@dataclass(slots=True)
class EndpointPartitions:
    """Partitions read by the tasks of one member."""

    endpoint: Endpoint
    active: _Partitions
    standby: _Partitions


def endpoint_partitions(
    topology: ConfiguredTopology, members: Iterable[StreamsMember]
) -> list[EndpointPartitions]:
    return [
        EndpointPartitions(
            member.user_endpoint,
            _partitions(topology, member.assigned.active),
            _partitions(topology, member.assigned.standby),
        )
        for member in members
        if member.user_endpoint is not None
    ]


def _partitions(topology: ConfiguredTopology, tasks: TaskEpochs) -> _Partitions:
    found: dict[str, set[int]] = {}
    for sub in topology.topology.subtopologies:
        held = tasks.get(sub.subtopology_id, {})
        for topic in sub.reads():
            count = topology.partitions.get(topic, 0)
            partitions = {partition for partition in held if partition < count}
            if partitions:
                found.setdefault(topic, set()).update(partitions)
    return {topic: sorted(partitions) for topic, partitions in sorted(found.items())}


@dataclass(slots=True)
class StreamsHeartbeatRequest:
    """A heartbeat. None marks an unchanged field omitted by the member."""

    member_id: str
    member_epoch: int
    endpoint_epoch: int = -1
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    owned: Tasks | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] | None = None
    shutdown_application: bool = False
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """Return True for a full heartbeat, sent when a member joins or has missed a response."""
        return self.rebalance_timeout_ms != -1 and self.owned is not None


@dataclass(slots=True)
class StreamsHeartbeatResult:
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    statuses: list[Status] = field(default_factory=list)
    tasks: Tasks | None = None
    endpoint_epoch: int = 0
    endpoints: list[EndpointPartitions] | None = None
    # The epoch of the group's topology.
    topology_epoch: int = -1
    # Internal topics for the broker to create now.
    to_create: tuple[InternalTopic, ...] = ()


@dataclass(slots=True)
class StreamsGroupDescription:
    """Description of a group; each member includes its target tasks."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    epoch: int = 0
    assignment_epoch: int = 0
    topology: ConfiguredTopology | None = None
    topology_description: Any = None
    members: list[tuple[StreamsMember, Tasks]] = field(default_factory=list)


# Reconciliation of one streams group member from its current tasks to its target tasks.
#
# A member first revokes tasks outside its target and stays in its epoch until it confirms the revocation. It then moves
# to the target epoch with every free task; the rest follow as other members release them.
#
# An active task is free if no member runs it as active and the member's own process does not have it in any
# role. A standby is free if its process does not have the task. Therefore no task is active twice, and no
# process opens the state of a task twice.

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
