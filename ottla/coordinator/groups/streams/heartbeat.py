"""Inputs and outputs of a streams group: heartbeats, their results, descriptions. Plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.coordinator.groups.streams.streams_state import Endpoint, StreamsMember, TaskEpochs, Tasks
from ottla.coordinator.groups.streams.topology import ConfiguredTopology, InternalTopic, Status, Topology
from ottla.protocol.errors import ErrorCode

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
    members: list[tuple[StreamsMember, Tasks]] = field(default_factory=list)
