"""Pages of the audit log and the count audit."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.client.cluster import Cluster
from ottla.console.access.roles import Level
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.paging import listing
from ottla.console.web.visit import Page, Visit
from ottla.http import Response
from ottla.monitoring.audit.audit_topic import AUDIT_TOPIC, read_tier_counts

# Changes made through this console.


def routes() -> Iterator[Route]:
    yield Route("GET", f"{CLUSTER}/changes", changes, Level.ADMIN, everywhere=True)


async def changes(visit: Visit) -> Page | Response:
    entries = [each for each in visit.app.audit.last() if each["cluster"] in ("", visit.site.name)]
    newest_first = {id(each): -number for number, each in enumerate(entries)}
    listed = listing(
        entries,
        {"desc": "1", **visit.query},
        text=lambda each: f"{each['user']} {each['action']} {each['target']} {each['address']}",
        columns={"time": lambda each: newest_first[id(each)], "user": lambda each: each["user"]},
        default="time",
    )
    return Page("security/changes.html", {"changes": listed.rows, **listed.plain()}, more={"listed": listed})


# The count audit: counts of each tier, and discrepancies, as in `ottla audit balance`.

_GRACE_SECONDS = 600


def count_audit_routes() -> Iterator[Route]:
    yield Route("GET", f"{CLUSTER}/count-audit", count_audit, everywhere=True)


async def count_audit(visit: Visit) -> Page | Response:
    text = visit.query.get("grace", "")
    grace = int(text) if text.isdecimal() and len(text) < 8 else _GRACE_SECONDS
    found = await visit.site.calls.read(_balanced, grace * 1000)
    return Page("count_audit.html", found, more={"grace": grace})


def _balanced(cluster: Cluster, grace_ms: int) -> dict[str, object]:
    if not cluster.topics([AUDIT_TOPIC]):
        return {"tiers": [], "findings": [], "is_there": False}
    kept = read_tier_counts(cluster)
    tiers = [
        {
            "topic": topic,
            "tier": tier,
            "records": sum(each.count for each in buckets.values()),
            "bytes": sum(each.bytes for each in buckets.values()),
            "counted_ms": kept.times[topic, tier],
        }
        for (topic, tier), buckets in sorted(kept.counts.items())
    ]
    findings = [
        each._asdict() for topic in kept.topics for each in kept.balance(topic, [], grace_ms=grace_ms)
    ]
    return {"tiers": tiers, "findings": findings, "is_there": True}
