"""Data flow: topics, queries, pipelines, connectors, mirrors and groups as one graph."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.console.flows.connectors import add_connectors
from ottla.console.flows.flow import Flow
from ottla.console.flows.groups import add_groups
from ottla.console.flows.mirrors import add_mirrors
from ottla.console.flows.pipelines import add_pipelines
from ottla.console.flows.queries import add_queries
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.graph import draw
from ottla.console.web.visit import Page, Visit
from ottla.http import Response

_MOST_NODES = 120


def flow_routes() -> Iterator[Route]:
    yield Route("GET", f"{CLUSTER}/flow", flow, everywhere=True)


async def flow(visit: Visit) -> Page | Response:
    found = Flow(visit)
    await add_connectors(visit, found)
    await add_queries(visit, found)
    await visit.site.calls.run(add_pipelines, visit, found)
    await add_mirrors(visit, found)
    add_groups(visit, found)
    nodes = list(found.nodes.values())[:_MOST_NODES]
    data = {"nodes": nodes, "edges": found.edges, "problems": found.problems}
    more = {"drawing": draw(nodes, found.edges), "is_cut": len(found.nodes) > _MOST_NODES}
    return Page("queries/flow.html", data, more=more)
