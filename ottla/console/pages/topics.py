"""List of topics, and topic details: partitions and settings."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from ottla.client.admin.configs import Resource, describe_configs
from ottla.client.admin.groups import GroupListing
from ottla.client.admin.offsets import Partition
from ottla.client.admin.topics import describe_topics
from ottla.console.cluster.source import TopicState
from ottla.console.pages.settings_table import setting_rows
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.paging import listing
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response

TOPIC = f"{CLUSTER}/topics/{{topic}}"
#: The list omits offsets of topics with more partitions, because they would slow it down.
_MOST_PARTITIONS = 500


def routes() -> Iterator[Route]:
    yield Route("GET", f"{CLUSTER}/topics", topics)
    yield Route("GET", TOPIC, to_partitions, json=False)
    yield Route("GET", f"{TOPIC}/partitions", partitions)
    yield Route("GET", f"{TOPIC}/settings", settings)
    yield Route("GET", f"{TOPIC}/groups", groups_of_topic)


async def topics(visit: Visit) -> Page | Response:
    """List topics from the snapshot. Only the visible rows cost requests for counts and sizes."""
    site = visit.site
    snapshot = await visit.snapshot()
    internal = visit.query.get("internal") == "1"
    visible = [topic for topic in snapshot.topics.values() if internal or not topic.internal]
    listed = listing(
        visible,
        visit.query,
        text=lambda topic: topic.name,
        columns={
            "name": lambda topic: topic.name,
            "partitions": lambda topic: len(topic.partitions),
            "replication": lambda topic: topic.replication_factor,
            "problems": lambda topic: topic.offline * 1_000_000 + topic.under_replicated,
            "rate": lambda topic: site.rates.of_topic(topic.name, len(topic.partitions)),
        },
        default="name",
        others=("internal",),
    )
    small = [topic for topic in listed.rows if len(topic.partitions) <= _MOST_PARTITIONS]
    leaders = leaders_of(small)
    starts, ends = await site.ask(lambda source: source.offsets(list(leaders)))
    sizes = await site.ask(lambda source: source.sizes([topic.name for topic in small], leaders))
    rows = [_row(visit, topic, starts, ends, sizes) for topic in listed.rows]
    return Page(
        "topics/topics.html",
        {"topics": rows, **listed.plain()},
        more={"listed": listed, "internal": internal},
    )


def leaders_of(topics: list[TopicState]) -> dict[Partition, int]:
    return {
        (topic.name, each.number): each.leader
        for topic in topics
        for each in topic.partitions
        if each.leader is not None
    }


def _row(
    visit: Visit,
    topic: TopicState,
    starts: dict[Partition, int],
    ends: dict[Partition, int],
    sizes: dict[Partition, int],
) -> dict[str, Any]:
    keys = [(topic.name, each.number) for each in topic.partitions]
    counted = [key for key in keys if key in starts and key in ends]
    return {
        "name": topic.name,
        "internal": topic.internal,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "under_replicated": topic.under_replicated,
        "offline": topic.offline,
        "messages": sum(ends[key] - starts[key] for key in counted) if counted else None,
        "size": sum(sizes[key] for key in keys if key in sizes)
        if any(key in sizes for key in keys)
        else None,
        "messages_per_second": visit.site.rates.of_topic(topic.name, len(topic.partitions)),
    }


async def topic_state(visit: Visit) -> TopicState:
    """Raises HttpError 404."""
    name = visit.params["topic"]
    snapshot = await visit.snapshot()
    if name not in snapshot.topics:
        snapshot = await visit.snapshot(renewed=True)
    if name not in snapshot.topics:
        raise HttpError(404, 404, f"Topic '{name}' does not exist.")
    return snapshot.topics[name]


async def to_partitions(visit: Visit) -> Page | Response:
    return visit.redirect(visit.url("topics", visit.params["topic"], "partitions"))


async def partitions(visit: Visit) -> Page | Response:
    name = visit.params["topic"]
    await topic_state(visit)
    [topic] = await visit.site.calls.read(describe_topics, [name], with_offsets=True, with_sizes=True)
    needed = (await visit.site.ask(lambda source: source.min_isr([name]))).get(name)
    rows: list[dict[str, Any]] = [
        {
            "partition": each.partition,
            "leader": each.leader,
            "replicas": each.replicas,
            "isr": each.isr,
            "offline_replicas": each.offline_replicas,
            "start_offset": each.start_offset,
            "end_offset": each.end_offset,
            "messages": each.messages,
            "size": each.size,
            "is_preferred": bool(each.replicas) and each.leader == each.replicas[0],
            "is_under_replicated": len(each.isr) < len(each.replicas),
            "is_below_min_isr": needed is not None and len(each.isr) < needed,
        }
        for each in topic.partitions
    ]
    known = [row["messages"] for row in rows if row["messages"] is not None]
    sizes = [row["size"] for row in rows if row["size"] is not None]
    data = {
        "topic": name,
        "topic_id": _readable(topic.topic_id),
        "internal": topic.internal,
        "replication_factor": topic.replication_factor,
        "min_insync_replicas": needed,
        "partitions": rows,
        "messages": sum(known) if known else None,
        "size": sum(sizes) if sizes else None,
        "messages_per_second": visit.site.rates.of_topic(name, len(rows)),
    }
    return Page("topics/partitions.html", data, more={"tab": "partitions"})


def _readable(topic_id: str) -> str:
    try:
        return "" if not any(base64.urlsafe_b64decode(topic_id + "==")) else topic_id
    except ValueError:
        return topic_id


async def settings(visit: Visit) -> Page | Response:
    name = visit.params["topic"]
    state = await topic_state(visit)
    entries = await visit.site.calls.read(describe_configs, Resource("topic", name), documentation=True)
    return Page(
        "topics/settings.html",
        {"topic": name, "internal": state.internal, "settings": setting_rows(entries)},
        more={"tab": "settings", "partition_count": len(state.partitions)},
    )


async def groups_of_topic(visit: Visit) -> Page | Response:
    """Show groups with committed offsets here. One request per coordinator covers all visible groups."""
    name = visit.params["topic"]
    state = await topic_state(visit)
    snapshot = await visit.snapshot()
    chosen: list[GroupListing] = list(snapshot.groups.values())[:1000]
    positions = await visit.site.ask(lambda source: source.positions(chosen))
    rows = []
    for group, of_group in positions.items():
        here = {key: each for key, each in of_group.items() if key[0] == name}
        if here:
            lags = [each.lag for each in here.values() if each.lag is not None]
            listing_ = snapshot.groups[group]
            rows.append({"group": group, "type": listing_.type, "state": listing_.state,
                         "partitions": len(here), "lag": sum(lags) if lags else None})  # fmt: skip
    rows.sort(key=lambda row: str(row["group"]))
    return Page(
        "topics/groups.html",
        {"topic": name, "internal": state.internal, "groups": rows},
        more={"tab": "groups", "is_cut": len(snapshot.groups) > len(chosen)},
    )
