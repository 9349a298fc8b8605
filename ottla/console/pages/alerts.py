"""Alerts of a cluster, and the console's own metrics."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator

from ottla.client.errors import ClientError
from ottla.console.access.roles import Level
from ottla.console.cluster.site import Site
from ottla.console.health.problem import Problem, verdict
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response
from ottla.monitoring.metrics.text import CONTENT_TYPE, family, labels, process_metrics

#: A cluster with more problems has them counted, but not named: series should not grow with its size.
_MOST_NAMED = 200
_PATIENCE = 4.0


def routes() -> Iterator[Route]:
    yield Route("GET", f"{CLUSTER}/alerts", alerts, of=None)
    yield Route("GET", "/metrics", metrics, of=None, json=False)


async def alerts(visit: Visit) -> Page | Response:
    found = await visit.problems()
    shown = [
        {
            "severity": each.severity,
            "area": each.area,
            "name": each.name,
            "text": each.text,
            "fix": each.fix,
            "page": visit.url(*each.path),
        }
        for each in found
    ]
    return Page("cluster/alerts.html", {"health": verdict(found), "problems": shown})


async def metrics(visit: Visit) -> Page | Response:
    """Return the problems of all clusters for Prometheus, as a viewer of everything."""
    visit.require(Level.VIEWER)
    sites = list(visit.app.sites.values())
    found = dict(zip((each.name for each in sites), await asyncio.gather(*(_problems(visit, each) for each in sites)),
                     strict=True))  # fmt: skip
    return Response(200, "".join(_lines(visit, found)).encode(), CONTENT_TYPE)


async def _problems(visit: Visit, site: Site) -> list[Problem] | None:
    """Return None if the cluster does not answer."""
    asked = asyncio.create_task(visit.app.observers[site.name].problems(visit.user, visit.app.audit.problem))
    try:
        return await asyncio.wait_for(asyncio.shield(asked), _PATIENCE)
    except (ClientError, HttpError, TimeoutError):
        asked.add_done_callback(lambda task: task.cancelled() or task.exception())
        return None


def _lines(visit: Visit, found: dict[str, list[Problem] | None]) -> Iterator[str]:
    yield from family(
        "ottla_console_cluster_up", "gauge", "Whether the cluster answers the console.",
        ((labels(cluster=name), int(_answers(visit, name, each))) for name, each in found.items()),
    )  # fmt: skip
    counts = Counter(
        (name, each.area, each.severity) for name, problems in found.items() for each in problems or () if each.counts
    )  # fmt: skip
    yield from family(
        "ottla_console_problems", "gauge", "Problems by area and severity; none without problems.",
        ((labels(cluster=name, area=area, severity=severity), count)
         for (name, area, severity), count in sorted(counts.items())),
    )  # fmt: skip
    yield from family(
        "ottla_console_problem", "gauge", "A problem of a broker, group, connector and so on.",
        ((labels(cluster=name, area=each.area, severity=each.severity, name=each.name), 1)
         for name, problems in found.items() for each in _distinct(problems or ())[:_MOST_NAMED]),
    )  # fmt: skip
    yield from family(
        "ottla_console_snapshot_age_seconds", "gauge", "Age of the data that pages show.",
        ((labels(cluster=site.name), max(time.time() - site.snapshots.last.taken_at, 0.0))
         for site in visit.app.sites.values() if site.snapshots.last is not None),
    )  # fmt: skip
    yield from process_metrics()


def _answers(visit: Visit, name: str, problems: list[Problem] | None) -> bool:
    return problems is not None and visit.app.sites[name].snapshots.silent_seconds is None


def _distinct(problems: list[Problem] | tuple[()]) -> list[Problem]:
    """Return one problem per area, severity and name: two equal series would be an error."""
    return list({(each.area, each.severity, each.name): each for each in problems if each.counts}.values())
