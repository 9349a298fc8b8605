"""LINK.properties: clusters as in mm2.properties, a single direction, and the topics and groups to copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.mirror.settings import BadMirrorSettings, FlowSettings, parse_flows

_DEFAULTS = {
    "refresh.topics.interval.seconds": "10",
    "sync.topic.configs.interval.seconds": "10",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "5",
    "replication.factor": "-1",
}
#: Topics keep their names, and MirrorMaker's internal topics are not needed.
_FIXED = {
    "replication.policy.class": "IdentityReplicationPolicy",
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "emit.offset-syncs.enabled": "false",
}


@dataclass(frozen=True)
class LinkSettings:
    name: str
    flow: FlowSettings

    def should_copy(self, topic: str) -> bool:
        return self.flow.topics(topic) and not self.flow.policy.is_internal(topic)


def parse_link(properties: Mapping[str, str], *, reverse: bool = False) -> LinkSettings:
    """Parse the settings of a link. `reverse` swaps the direction, for failback."""
    given = {**_DEFAULTS, **properties, **_FIXED}
    enabled = [flow for flow in parse_flows(given, refuse_circles=False) if flow.enabled]
    if len(enabled) != 1:
        raise BadMirrorSettings(
            "A link copies in one direction: one setting such as 'A->B.enabled = true' is needed, "
            f"and there are {len(enabled)}."
        )
    flow = enabled[0]
    if reverse:
        there, back = f"{flow.name}.", f"{flow.target}->{flow.source}."
        given = {name.replace(there, back, 1): value for name, value in given.items()}
        flow = next(flow for flow in parse_flows(given) if flow.enabled)
    default = f"{flow.source}-{flow.target}"
    return LinkSettings(default if reverse else properties.get("link.name", default).strip(), flow)
