"""Groups and their last measured lag, without queries to the cluster."""

from __future__ import annotations

from ottla.console.flows.flow import Flow
from ottla.console.web.graph import Node
from ottla.console.web.visit import Visit

_MOST_GROUPS = 40
#: Connect's prefix for the group of a sink.
_OF_SINK = "connect-"


def lags_by_topic(visit: Visit, group: str) -> dict[str, int]:
    lags: dict[str, int] = {}
    for (topic, _), points in visit.site.lags.partitions(group).items():
        lags[topic] = lags.get(topic, 0) + points[-1][1]
    return lags


def lag_of_sink(visit: Visit, connector: str, topic: str) -> int | None:
    return lags_by_topic(visit, f"{_OF_SINK}{connector}").get(topic)


def add_groups(visit: Visit, found: Flow) -> None:
    sinks = {
        f"{_OF_SINK}{node.removeprefix('connector:')}"
        for node in found.nodes
        if node.startswith("connector:")
    }
    sees = visit.user.view("group")
    groups = [each for each in visit.site.lags.groups() if each not in sinks and sees(each)]
    for group in groups[:_MOST_GROUPS]:
        for topic, lag in lags_by_topic(visit, group).items():
            href = visit.url("groups", group, "lag")
            node = found.add(Node(f"group:{group}", group, "group", "", href))
            found.link(found.topic(topic), node, lag=lag)
