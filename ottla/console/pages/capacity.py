"""Load and headroom of the cluster, measured on request as in `ottla capacity`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.visit import Page, Visit
from ottla.http import Response
from ottla.monitoring.capacity.advice import Limits, advice, disk_outlook
from ottla.monitoring.capacity.load import loads, losses
from ottla.monitoring.capacity.measuring import measure

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
