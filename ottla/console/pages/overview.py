"""The cluster at a glance, and its brokers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from ottla.client.admin.configs import Resource, describe_configs
from ottla.client.admin.log_dirs import LogDir
from ottla.console.access.roles import Level
from ottla.console.cluster.health import reasons
from ottla.console.cluster.snapshot import Snapshot
from ottla.console.pages.settings_table import setting_rows
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response

_SHOWN = 20


def routes() -> Iterator[Route]:
    yield Route("GET", "/", home, json=False)
    yield Route("GET", "/clusters", clusters)
    yield Route("GET", CLUSTER, to_overview, json=False)
    yield Route("GET", f"{CLUSTER}/overview", overview)
    yield Route("GET", f"{CLUSTER}/brokers/{{broker}}/settings", broker_settings, everywhere=True)


async def home(visit: Visit) -> Page | Response:
    sites = list(visit.app.sites.values())
    if len(sites) == 1:
        return visit.redirect(f"/clusters/{sites[0].name}/overview")
    return await clusters(visit)


async def clusters(visit: Visit) -> Page | Response:
    found = [
        {"name": each.name, "servers": each.settings.client.servers} for each in visit.app.sites.values()
    ]
    return Page("cluster/clusters.html", {"clusters": found})


async def to_overview(visit: Visit) -> Page | Response:
    return visit.redirect(visit.url("overview"))


async def overview(visit: Visit) -> Page | Response:
    site = visit.site
    snapshot = await site.snapshots.current()
    found = reasons(snapshot, visit.user.view(), silent_seconds=site.snapshots.silent_seconds)
    groups = list(snapshot.groups.values())
    data = {
        "cluster_id": snapshot.topology.cluster_id,
        "controller": snapshot.topology.controller,
        "health": "ok" if not found else found[0].severity,
        "reasons": found,
        "brokers": brokers(snapshot),
        "topics": sum(not topic.internal for topic in snapshot.topics.values()),
        "internal_topics": sum(topic.internal for topic in snapshot.topics.values()),
        "partitions": snapshot.partition_count,
        "groups": len(groups),
        "under_replicated": len(snapshot.under_replicated),
        "offline": len(snapshot.offline),
        "below_min_isr": len(snapshot.below_min_isr),
        "under_replicated_partitions": _visible(visit, snapshot.under_replicated),
        "below_min_isr_partitions": _visible(visit, snapshot.below_min_isr),
        "offline_partitions": _visible(visit, snapshot.offline),
        "messages_per_second": site.rates.total if site.rates.is_known else None,
        "age_seconds": round(max(time.time() - snapshot.taken_at, 0), 1),
    }
    return Page("cluster/overview.html", data, more={"history": list(site.rates.history)[1:]})


def _visible(visit: Visit, partitions: list[tuple[str, int]]) -> list[tuple[str, int]]:
    sees = visit.user.view()
    return [each for each in partitions if sees(each[0])][:_SHOWN]


def brokers(snapshot: Snapshot) -> list[dict[str, Any]]:
    return [
        {
            "id": node.id,
            "host": node.host,
            "port": node.port,
            "rack": node.rack,
            "is_controller": node.id == snapshot.topology.controller,
            "leaders": snapshot.leaders_by_broker.get(node.id, 0),
            "replicas": snapshot.replicas_by_broker.get(node.id, 0),
            **_disk(snapshot.volumes.get(node.id, [])),
        }
        for node in snapshot.topology.brokers.values()
    ]


def _disk(directories: list[LogDir]) -> dict[str, Any]:
    """Of directories on one volume the same figures come more than once; each volume counts once."""
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
    snapshot = await visit.site.snapshots.current()
    if not number.isdecimal() or int(number) not in snapshot.topology.brokers:
        raise HttpError(404, 404, f"There is no broker {number}.")
    entries = await visit.site.calls.read(describe_configs, Resource("broker", number), documentation=True)
    [broker] = [each for each in brokers(snapshot) if each["id"] == int(number)]
    return Page(
        "cluster/broker.html",
        {"broker": broker, "settings": setting_rows(entries)},
        more={"may_edit": visit.can("admin"), "level": Level.ADMIN},
    )
