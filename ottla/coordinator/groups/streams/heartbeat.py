"""What goes into a streams group and what comes out of it: heartbeats, their results, descriptions. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.coordinator.groups.streams.endpoints import EndpointPartitions
from ottla.coordinator.groups.streams.state import Endpoint, StreamsMember, Tasks
from ottla.coordinator.groups.streams.topology import ConfiguredTopology, InternalTopic, Status, Topology
from ottla.protocol.errors import ErrorCode


@dataclass(slots=True)
class StreamsHeartbeatRequest:
    """None is a field that the member omitted because it has not changed."""

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
        """Members say everything when they join and when they have missed an answer."""
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
    # Internal topics that the broker has to create now.
    to_create: tuple[InternalTopic, ...] = ()


@dataclass(slots=True)
class StreamsGroupDescription:
    """Members with what each is meant to have."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    epoch: int = 0
    assignment_epoch: int = 0
    topology: ConfiguredTopology | None = None
    members: list[tuple[StreamsMember, Tasks]] = field(default_factory=list)
