"""Application endpoints and their state partitions, used to route interactive queries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.coordinator.groups.streams.state import Endpoint, HeldTasks, StreamsMember
from ottla.coordinator.groups.streams.topology import ConfiguredTopology

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


def _partitions(topology: ConfiguredTopology, tasks: HeldTasks) -> _Partitions:
    found: dict[str, set[int]] = {}
    for sub in topology.topology.subtopologies:
        held = tasks.get(sub.subtopology_id, {})
        for topic in sub.reads():
            count = topology.partitions.get(topic, 0)
            partitions = {partition for partition in held if partition < count}
            if partitions:
                found.setdefault(topic, set()).update(partitions)
    return {topic: sorted(partitions) for topic, partitions in sorted(found.items())}
