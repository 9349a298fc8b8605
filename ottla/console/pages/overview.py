"""Overview of a cluster: health, flow of data and capacity."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from typing import Any

from ottla.client.admin.configs import Resource, describe_configs
from ottla.client.admin.log_dirs import LogDir
from ottla.client.errors import ClientError
from ottla.console.access.roles import Level
from ottla.console.cluster.site import Site
from ottla.console.cluster.snapshot import Snapshot
from ottla.console.flows import (
    Flow,
    add_connectors,
    add_groups,
    add_mirrors,
    add_pipelines,
    add_queries,
    merged,
    neighbourhood,
)
from ottla.console.health.problem import verdict
from ottla.console.pages.topics import setting_rows
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.charts import draw
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response
from ottla.monitoring.capacity.advice import Limits, advice, disk_outlook
from ottla.monitoring.capacity.load import loads, losses
from ottla.monitoring.capacity.measuring import measure

# Overview of the cluster and its brokers.

_SHOWN = 20
_PATIENCE = 2.5


def routes() -> Iterator[Route]:
    yield Route("GET", "/", home, of=None, json=False)
    yield Route("GET", "/clusters", clusters, of=None)
    yield Route("GET", CLUSTER, to_overview, of=None, json=False)
    yield Route("GET", f"{CLUSTER}/overview", overview, of=None)
    yield Route("GET", f"{CLUSTER}/brokers/{{broker}}/settings", broker_settings, everywhere=True)


async def home(visit: Visit) -> Page | Response:
    sites = list(visit.app.sites.values())
    if len(sites) == 1:
        return visit.redirect(f"/clusters/{sites[0].name}/overview")
    return await clusters(visit)


async def clusters(visit: Visit) -> Page | Response:
    """List the clusters with their health. A cluster without an answer delays nobody."""
    sites = list(visit.app.sites.values())
    states = await asyncio.gather(*(_state(visit, each) for each in sites))
    found = [
        {"name": each.name, "servers": each.settings.client.servers, **state}
        for each, state in zip(sites, states, strict=True)
    ]
    return Page("cluster/clusters.html", {"clusters": found})


async def _state(visit: Visit, site: Site) -> dict[str, Any]:
    asked = asyncio.create_task(visit.app.observers[site.name].problems(visit.user))
    try:
        found = await asyncio.wait_for(asyncio.shield(asked), _PATIENCE)
    except (ClientError, TimeoutError):
        asked.add_done_callback(lambda task: task.cancelled() or task.exception())
        return {"health": "unknown", "problems": None, "brokers": None}
    snapshot = site.snapshots.last
    brokers = len(snapshot.topology.brokers) if snapshot is not None else None
    return {"health": verdict(found), "problems": sum(each.counts for each in found), "brokers": brokers}


async def to_overview(visit: Visit) -> Page | Response:
    return visit.redirect(visit.url("overview"))


async def overview(visit: Visit) -> Page | Response:
    """Show numbers for the topics and groups visible to the user."""
    snapshot = await visit.snapshot()
    found = await visit.problems()
    rate, history = _throughput(visit, snapshot)
    data = {
        "cluster_id": snapshot.topology.cluster_id,
        "controller": snapshot.topology.controller,
        "health": verdict(found),
        "reasons": [each for each in found if each.counts],
        "brokers": brokers(snapshot),
        "topics": sum(not topic.internal for topic in snapshot.topics.values()),
        "internal_topics": sum(topic.internal for topic in snapshot.topics.values()),
        "partitions": snapshot.partition_count,
        "groups": len(snapshot.groups),
        "under_replicated": len(snapshot.under_replicated),
        "offline": len(snapshot.offline),
        "below_min_isr": len(snapshot.below_min_isr),
        "under_replicated_partitions": snapshot.under_replicated[:_SHOWN],
        "below_min_isr_partitions": snapshot.below_min_isr[:_SHOWN],
        "offline_partitions": snapshot.offline[:_SHOWN],
        "messages_per_second": rate,
        "age_seconds": round(max(time.time() - snapshot.taken_at, 0), 1),
    }
    return Page("cluster/overview.html", data, more={"history": history})


def _throughput(visit: Visit, snapshot: Snapshot) -> tuple[float | None, list[tuple[float, float]]]:
    """Return messages per second and their history, which exists for the whole cluster only."""
    rates = visit.site.rates
    if visit.user.may_everywhere(Level.VIEWER):
        return rates.total if rates.is_known else None, list(rates.history)[1:]
    known = [rates.of_topic(name, len(topic.partitions)) for name, topic in snapshot.topics.items()]
    measured = [each for each in known if each is not None]
    return sum(measured) if measured and rates.is_known else None, []


def brokers(snapshot: Snapshot) -> list[dict[str, Any]]:
    return [
        {
            "id": node.id,
            "host": node.host,
            "port": node.port,
            "rack": node.rack,
            "is_down": False,
            "is_controller": node.id == snapshot.topology.controller,
            "leaders": snapshot.leaders_by_broker.get(node.id, 0),
            "replicas": snapshot.replicas_by_broker.get(node.id, 0),
            **_disk(snapshot.volumes.get(node.id, [])),
        }
        for node in snapshot.topology.brokers.values()
    ] + [
        {
            "id": broker,
            "host": None,
            "port": None,
            "rack": None,
            "is_down": True,
            "is_controller": False,
            "leaders": 0,
            "replicas": replicas,
            **_disk([]),
        }
        for broker, replicas in sorted(snapshot.replicas_by_broker.items())
        if broker not in snapshot.topology.brokers
    ]


def _disk(directories: list[LogDir]) -> dict[str, Any]:
    """Count each volume once, although several directories report it."""
    volumes = {(each.total_bytes, each.usable_bytes) for each in directories if each.total_bytes}
    total = sum(each or 0 for each, _ in volumes)
    free = sum(each or 0 for _, each in volumes)
    return {
        "disk_total": total or None,
        "disk_free": free if total else None,
        "disk_used_percent": round(100 * (1 - free / total), 1) if total else None,
        "log_dirs": [{"path": each.path, "error": each.error} for each in directories],
    }


async def broker_settings(visit: Visit) -> Page | Response:
    number = visit.params["broker"]
    snapshot = await visit.snapshot()
    found = [each for each in brokers(snapshot) if str(each["id"]) == number]
    if not found:
        raise HttpError(404, 404, f"There is no broker {number}.")
    [broker] = found
    entries = []
    if not broker["is_down"]:
        resource = Resource("broker", number)
        entries = await visit.site.calls.read(describe_configs, resource, documentation=True)
    return Page(
        "cluster/broker.html",
        {"broker": broker, "settings": setting_rows(entries)},
        more={"may_edit": visit.can("admin"), "level": Level.ADMIN},
    )


# Data flow: topics, queries, pipelines, connectors, mirrors and groups as one graph.

_MOST_NODES = 120
_STEPS = ("1", "2", "3", "9")


def flow_routes() -> Iterator[Route]:
    yield Route("GET", f"{CLUSTER}/flow", flow, everywhere=True)


async def flow(visit: Visit) -> Page | Response:
    found = Flow(visit)
    await add_connectors(visit, found)
    await add_queries(visit, found)
    await visit.site.calls.run(add_pipelines, visit, found)
    await add_mirrors(visit, found)
    add_groups(visit, found)
    nodes, edges = merged(found.nodes.values(), found.edges)
    text, around = visit.query.get("q", "").strip().lower(), visit.query.get("around", "")
    steps = int(visit.query.get("steps", "2")) if visit.query.get("steps", "2") in _STEPS else 2
    names = sorted(node.id for node in nodes)
    if around or text:
        chosen = {node.id for node in nodes if node.id == around or (text and text in node.label.lower())}
        nodes, edges = neighbourhood(nodes, edges, chosen, steps)
    is_cut = len(nodes) > _MOST_NODES
    nodes = nodes[:_MOST_NODES]
    data = {"nodes": nodes, "edges": edges, "problems": found.problems}
    more = {
        "drawing": draw(nodes, edges),
        "is_cut": is_cut,
        "names": names,
        "around": around,
        "steps": steps,
        "text": visit.query.get("q", ""),
    }
    return Page("queries/flow.html", data, more=more)


# Load and headroom of the cluster, measured on request as in `ottla capacity`.

_SECONDS = 5.0


def capacity_routes() -> Iterator[Route]:
    yield Route("GET", f"{CLUSTER}/capacity", capacity, everywhere=True)


async def capacity(visit: Visit) -> Page | Response:
    """Measure on request only, because it queries all partitions twice."""
    if visit.query.get("measure") != "1":
        return Page("cluster/capacity.html", {"measured": None})
    seconds = visit.query.get("seconds", "")
    given = float(seconds) if seconds.isdecimal() and 0 < int(seconds) <= 60 else _SECONDS
    facts, failures = await visit.site.calls.read(measure, given)
    now, lost = loads(facts), losses(facts)
    limits = Limits()
    brokers: list[dict[str, Any]] = []
    for broker, load in sorted(now.brokers.items()):
        outlook = disk_outlook(facts, now, broker, limits)
        brokers.append(
            {
                "broker": broker,
                "leaders": load.leaders,
                "replicas": load.replicas,
                "bytes_in": load.bytes_in,
                "bytes_out": load.bytes_out,
                "stored": load.stored,
                "disk_used": outlook.used,
                "disk_later": None if outlook.later is None or math.isinf(outlook.later) else outlook.later,
                "full_in": outlook.full_in,
            }
        )
    measured = {
        "seconds": facts.seconds,
        "brokers": brokers,
        "bytes_in": sum(each.byte_rate for each in facts.partitions.values()),
        "records_in": sum(each.record_rate for each in facts.partitions.values()),
        "bytes_read": sum(each.read_rate for each in facts.partitions.values()),
        "losses": [
            {"broker": each.broker, "offline": len(each.offline), "read_only": len(each.read_only)}
            for each in lost
        ],
        "survives": not any(each.offline or each.read_only for each in lost),
        "advice": advice(facts, now, lost, limits),
        "failures": failures,
    }
    return Page("cluster/capacity.html", {"measured": measured})
