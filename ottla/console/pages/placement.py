"""Pages of replicas: placement, reassignment and balancing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ottla.client.admin.log_dirs import describe_log_dirs, describe_replicas
from ottla.client.admin.offsets import Partition
from ottla.client.admin.reassignments import Reassignment, elect_leaders, list_reassignments, reassign
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.console.access.roles import Level
from ottla.console.cluster.source import KafkaSource, TopicState
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.paging import Change, Plan, is_confirmed, listing, plan_page
from ottla.console.web.rendering import size
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response
from ottla.rebalancing import Placed, TooFewBrokers, plan

# Replica placement: heat map, moves with progress, and preferred leader elections.

_PREFERRED = 0
_MEASURES = {
    "replicas": "replicas",
    "leaders": "leaders",
    "bytes": "bytes on disk",
    "rate": "messages/s written",
}


def routes() -> Iterator[Route]:
    yield Route("GET", f"{CLUSTER}/heatmap", heatmap)
    yield Route("GET", f"{CLUSTER}/reassignments", reassignments, everywhere=True)
    yield Route("POST", f"{CLUSTER}/reassignments/start", start, Level.ADMIN, everywhere=True)
    yield Route("POST", f"{CLUSTER}/reassignments/cancel", cancel, Level.ADMIN, everywhere=True)
    yield Route("POST", f"{CLUSTER}/elections", elect, Level.OPERATOR, everywhere=True)


async def heatmap(visit: Visit) -> Page | Response:
    """Distribute the replicas, leaders, bytes or messages of each topic over the brokers."""
    snapshot = await visit.snapshot()
    what = visit.query.get("what", "")
    what = what if what in _MEASURES else "replicas"
    live = list(snapshot.topology.brokers)
    listed = listing(
        list(snapshot.topics.values()),
        visit.query,
        text=lambda topic: topic.name,
        columns={
            "name": lambda topic: topic.name,
            "partitions": lambda topic: len(topic.partitions),
            "skew": lambda topic: _skew(_counts(topic, "leaders" if what == "rate" else what, live)),
            "offline": lambda topic: topic.offline,
        },
        default="name",
        others=("what",),
    )
    brokers = sorted({*live, *snapshot.replicas_by_broker})
    sizes = await _sizes(visit, listed.rows) if what == "bytes" else {}
    rows: list[dict[str, Any]] = []
    for topic in listed.rows:
        values = _measured(visit, topic, what, brokers, sizes)
        mean = sum(values.values()) / max(len(live), 1)
        cells = [_cell(topic, broker, values[broker], mean) for broker in brokers]
        rows.append({"topic": topic.name, "offline": topic.offline, "skew": _skew(values), "cells": cells})
    totals: dict[int, float] = dict(
        snapshot.leaders_by_broker if what == "leaders" else snapshot.replicas_by_broker
    )
    if what in ("bytes", "rate"):
        totals = {
            broker: sum(row["cells"][place]["count"] for row in rows) for place, broker in enumerate(brokers)
        }
    return Page(
        "cluster/heatmap.html",
        {"brokers": brokers, "what": what, "rows": rows, "totals": totals, **listed.plain()},
        more={"listed": listed, "down": set(brokers) - set(live), "measures": _MEASURES},
    )


async def _sizes(visit: Visit, topics: list[TopicState]) -> dict[Partition, int]:
    leaders = {
        (topic.name, each.number): each.leader
        for topic in topics
        for each in topic.partitions
        if each.leader is not None
    }
    return await visit.site.ask(lambda source: source.sizes([each.name for each in topics], leaders))


def _measured(
    visit: Visit, topic: TopicState, what: str, brokers: list[int], sizes: dict[Partition, int]
) -> dict[int, float]:
    if what not in ("bytes", "rate"):
        return dict(_counts(topic, what, brokers))
    found: dict[int, float] = dict.fromkeys(brokers, 0)
    for each in topic.partitions:
        if what == "rate" and each.leader is not None:
            found[each.leader] += visit.site.rates.of_partition(topic.name, each.number) or 0.0
        for broker in each.replicas if what == "bytes" else ():
            found[broker] += sizes.get((topic.name, each.number), 0)
    return found


def _cell(topic: TopicState, broker: int, value: float, mean: float) -> dict[str, Any]:
    here = [each for each in topic.partitions if broker in each.replicas]
    return {
        "broker": broker,
        "count": value,
        "heat": _heat(value, mean),
        "out_of_sync": any(broker not in each.isr for each in here),
        "offline": sum(each.leader is None for each in here),
    }


def _counts(topic: TopicState, what: str, brokers: list[int]) -> dict[int, int]:
    found = dict.fromkeys(brokers, 0)
    for each in topic.partitions:
        for broker in (each.leader,) if what == "leaders" else each.replicas:
            if broker is not None:
                found[broker] = found.get(broker, 0) + 1
    return found


def _skew(counts: Mapping[int, float]) -> float:
    return max(counts.values(), default=0) - min(counts.values(), default=0)


def _heat(value: float, mean: float) -> int:
    """Compare with an even distribution of the same topic: 2 is the fair share, 6 twice as much or more."""
    if value <= 0:
        return 0
    ratio = value / mean
    return next((heat for heat, limit in enumerate((0.6, 1.2, 1.5, 1.8, 2.0), 1) if ratio < limit), 6)


# -- moving --


async def reassignments(visit: Visit) -> Page | Response:
    going = await visit.site.calls.read(list_reassignments)
    rows = await visit.site.calls.read(_progress, going) if going else []
    snapshot = await visit.snapshot()
    name = visit.query.get("topic", "").strip()
    if name and name not in snapshot.topics:
        snapshot = await visit.snapshot(renewed=True)
    chosen = snapshot.topics.get(name)
    not_preferred = sum(
        bool(each.replicas) and each.leader is not None and each.leader != each.replicas[0]
        for topic in snapshot.topics.values()
        for each in topic.partitions
    )
    return Page(
        "cluster/reassignments.html",
        {
            "reassignments": rows,
            "topic": name,
            "partitions": [
                {"partition": each.number, "replicas": list(each.replicas)}
                for each in (chosen.partitions if chosen else ())
            ],
            "not_preferred": not_preferred,
            "brokers": sorted(snapshot.topology.brokers),
        },
        more={"unknown": bool(name) and chosen is None},
    )


def _progress(cluster: Cluster, going: dict[Partition, Reassignment]) -> list[dict[str, Any]]:
    sizes: dict[tuple[str, int], dict[int, int]] = {}
    try:
        for replica in describe_replicas(cluster, {topic for topic, _ in going}):
            sizes.setdefault((replica.topic, replica.partition), {})[replica.broker] = replica.size
    except ClientError:
        pass  # a broker is down: progress unknown
    rows = []
    for key, each in sorted(going.items()):
        known = sizes.get(key, {})
        whole = max(known.values(), default=0)
        there = [min(known.get(broker, 0), whole) for broker in each.adding]
        percent = round(100 * sum(there) / (whole * len(there)), 1) if whole and there else None
        rows.append(
            {
                "topic": key[0],
                "partition": key[1],
                "replicas": each.replicas,
                "adding": each.adding,
                "removing": each.removing,
                "percent": percent,
            }
        )
    return rows


async def start(visit: Visit) -> Page | Response:
    topic = visit.needed("topic")
    snapshot = await visit.snapshot()
    if topic not in snapshot.topics:
        raise HttpError(404, 404, f"Topic '{topic}' does not exist.")
    wanted: dict[Partition, list[int] | None] = {}
    changes = []
    for each in snapshot.topics[topic].partitions:
        replicas = _replicas(visit.form.get(f"replicas-{each.number}", ""), set(snapshot.topology.brokers))
        if replicas is not None and replicas != list(each.replicas):
            wanted[topic, each.number] = replicas
            changes.append(Change(f"{topic}-{each.number}", _list(each.replicas), _list(replicas)))
    back = visit.url("reassignments") + f"?topic={topic}"
    if not wanted:
        return visit.redirect(back, "Nothing is to be moved: all replicas are where they should be.")
    if is_confirmed(visit):
        refused = await visit.change("move partitions", topic, reassign, wanted)
        if refused:
            (name, number), reason = next(iter(refused.items()))
            raise HttpError(400, 400, f"{name}-{number} was not moved: {reason}")
        return visit.redirect(visit.url("reassignments"), f"Partitions of '{topic}' are being moved.")
    return plan_page(visit, Plan(f"Move partitions of {topic}", changes, "Move partitions", back))


def _replicas(text: str, brokers: set[int]) -> list[int] | None:
    """Parse `1, 2, 3`; the first is the preferred leader. Raises HttpError 400."""
    if not text.strip():
        return None
    try:
        found = [int(each) for each in text.split(",")]
    except ValueError:
        raise HttpError(400, 400, f"'{text}' is not a list of brokers: write 1, 2, 3.") from None
    if len(set(found)) < len(found) or not set(found) <= brokers:
        raise HttpError(400, 400, f"'{text}' must name existing brokers, each once.")
    return found


def _list(replicas: Any) -> str:
    return ", ".join(map(str, replicas))


async def cancel(visit: Visit) -> Page | Response:
    topic, number = visit.needed("topic"), visit.needed("partition")
    if not number.isdecimal():
        raise HttpError(400, 400, "The partition must be a whole number.")
    wanted: dict[Partition, list[int] | None] = {(topic, int(number)): None}
    refused = await visit.change("cancel move", f"{topic}-{number}", reassign, wanted)
    sentence = next(iter(refused.values()), f"{topic}-{number} stays where it was.")
    return visit.redirect(visit.url("reassignments"), sentence)


async def elect(visit: Visit) -> Page | Response:
    results = await visit.change("elect preferred leaders", "all partitions", elect_leaders, _PREFERRED, None)
    done = sum(name == "NONE" for name, _ in results.values())
    return visit.redirect(visit.url("reassignments"), f"New leaders were elected for {done} partitions.")


# Balance replicas, bytes and leaders over the brokers like `ottla cluster rebalance`, a few moves at a time.

#: Longer plans are unreadable; the rest comes with the next plan.
_AT_ONCE = 200
_PURPOSE = "rebalance"


def rebalance_routes() -> Iterator[Route]:
    yield Route("POST", f"{CLUSTER}/reassignments/rebalance", rebalance, Level.ADMIN, everywhere=True)


async def rebalance(visit: Visit) -> Page | Response:
    back = visit.url("reassignments")
    if is_confirmed(visit):
        # Execute exactly the displayed plan, which comes back signed.
        signed = visit.app.read_signed_link(visit, _PURPOSE, visit.form.get("plan"))
        if signed is None:
            raise HttpError(400, 400, "The plan is too old: make a new one.")
        wanted: dict[Partition, list[int] | None] = {
            (topic, number): replicas for topic, number, replicas in json.loads(signed)
        }
        refused = await visit.change("rebalance", f"{len(wanted)} partitions", reassign, wanted)
        done = len(wanted) - len(refused)
        return visit.redirect(back, f"{done} partitions are being moved.")
    moves, sizes = await visit.site.calls.read(_propose)
    if not moves:
        return visit.redirect(back, "Replicas and leaders are spread evenly: there is nothing to move.")
    chosen = dict(sorted(moves.items())[:_AT_ONCE])
    changes = [
        Change(
            f"{topic}-{number}",
            _list_moves(before),
            f"{_list_moves(after)} ({size(sizes.get((topic, number), 0))})",
        )
        for (topic, number), (before, after) in chosen.items()
    ]
    document = json.dumps([[*key, list(after)] for key, (_, after) in chosen.items()])
    visit.fields = [("plan", visit.app.signed_link(visit, _PURPOSE, document))]
    warnings = []
    if len(moves) > len(chosen):
        warnings.append(f"{len(moves) - len(chosen):,} more partitions are left for the next time.")
    return plan_page(visit, Plan("Rebalance the cluster", changes, "Move partitions", back, warnings))


Moves = dict[Partition, tuple[tuple[int, ...], tuple[int, ...]]]


def _propose(cluster: Cluster) -> tuple[Moves, dict[Partition, int]]:
    """Return replicas before and after, and sizes. Partitions that move or have an offline replica stay."""
    going = list_reassignments(cluster)
    topology = KafkaSource(cluster).topology()
    sizes: dict[Partition, int] = {}
    for broker in topology.brokers:
        for directory in describe_log_dirs(cluster, broker):
            for replica in directory.replicas:
                key = (replica.topic, replica.partition)
                sizes[key] = max(sizes.get(key, 0), replica.size)
    placed = {}
    for topic in topology.topics.values():
        for each in topic.partitions:
            if each.leader is not None:
                key = (topic.name, each.number)
                movable = key not in going and set(each.replicas) <= topology.brokers.keys()
                placed[key] = Placed(each.replicas, sizes.get(key, 0), movable)
    try:
        wanted = plan(placed, {broker: node.rack for broker, node in topology.brokers.items()})
    except TooFewBrokers as error:
        topic_name, number = error.name
        raise HttpError(
            400,
            400,
            f"{topic_name}-{number} has {error.replicas} replicas, and there are {error.brokers} brokers.",
        ) from None
    return {key: (placed[key].replicas, tuple(after)) for key, after in wanted.items()}, sizes


def _list_moves(replicas: tuple[int, ...]) -> str:
    return ", ".join(map(str, replicas))
