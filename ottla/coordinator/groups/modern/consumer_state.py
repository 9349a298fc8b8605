"""State of a consumer group (KIP-848): plain data, replaced and never modified in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Self

from ottla.coordinator.groups.base.base_group import Assignment
from ottla.coordinator.groups.base.effects import MemberProtocol

# Partitions by topic id, each with the epoch of its assignment.
PartitionEpochs = Mapping[bytes, Mapping[int, int]]

NOTHING: Assignment = {}
NO_PARTITION_EPOCHS: PartitionEpochs = {}

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
# A static member leaves temporarily and keeps its partitions.
STATIC_LEAVE_EPOCH = -2

# Kafka counts the creation of a group as its first epoch.
FIRST_EPOCH = 1


class ConsumerGroupState(StrEnum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """Progress of a member towards its target assignment, with the values used in the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicProtocols:
    """Protocols offered by a member that still uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicProtocols | None = None
    # Current assignment, reconciled towards the target.
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: PartitionEpochs = field(default_factory=dict)
    revoking: PartitionEpochs = field(default_factory=dict)

    def subscription(self) -> tuple[object, ...]:
        """Return the contents of the member's metadata record."""
        return (
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            self.topics,
            self.regex,
            self.rebalance_timeout_ms,
            self.server_assignor,
            self.classic,
        )

    def current(self) -> tuple[object, ...]:
        """Return the contents of the member's assignment record."""
        return (self.epoch, self.previous_epoch, self.state, self.assigned, self.revoking)

    def at(
        self,
        epoch: int,
        state: MemberState,
        assigned: PartitionEpochs,
        revoking: PartitionEpochs = NO_PARTITION_EPOCHS,
    ) -> ConsumerMember:
        """Return the member in its next epoch. `previous_epoch` serves a member that missed the response."""
        return replace(
            self,
            epoch=epoch,
            previous_epoch=self.epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
        )


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """Topics matched by a pattern at the last evaluation."""

    topics: frozenset[str]
    version: int = 0
    timestamp_ms: int = 0


@dataclass(slots=True)
class ConsumerState:
    """State of a consumer group as stored in its records."""

    epoch: int = 0
    metadata_hash: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    targets: dict[str, Assignment] = field(default_factory=dict)
    target_epoch: int = 0
    target_timestamp_ms: int = 0

    def copy(self) -> Self:
        """Copy the dicts; their values are immutable."""
        return replace(
            self, members=dict(self.members), regexes=dict(self.regexes), targets=dict(self.targets)
        )


def partitions_of(held: PartitionEpochs) -> dict[bytes, frozenset[int]]:
    return {topic_id: frozenset(partitions) for topic_id, partitions in held.items()}


def overlap(some: PartitionEpochs, others: Assignment) -> bool:
    return any(not others[t].isdisjoint(partitions) for t, partitions in some.items() if t in others)


def is_within(some: Assignment, held: PartitionEpochs) -> bool:
    return all(partitions <= held.get(t, {}).keys() for t, partitions in some.items())
