"""What flows where: topics, queries, pipelines, connectors and groups as one graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.client.errors import ClientError
from ottla.console.pages.connectors import all_connectors
from ottla.console.remote import Remote
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.charts import compact
from ottla.console.web.graph import Edge, Node, draw
from ottla.console.web.visit import Page, Visit
from ottla.http import Response

_MOST_GROUPS = 40
_MOST_QUERIES = 40
_MOST_NODES = 120


def routes() -> Iterator[Route]:
    yield Route("GET", f"{CLUSTER}/flow", flow, everywhere=True)


class Flow:
    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self.nodes: dict[str, Node] = {}
        self.edges: list[Edge] = []
        self.problems: list[str] = []

    def topic(self, name: str) -> str:
        rate = self._visit.site.rates.of_topic(name, 1000) if name else None
        note = "" if rate is None else f"{compact(rate)}/s"
        href = self._visit.url("topics", name, "partitions")
        return self.add(Node(f"topic:{name}", name, "topic", note, href))

    def add(self, node: Node) -> str:
        self.nodes.setdefault(node.id, node)
        return node.id

    def link(self, source: str, target: str, label: str = "") -> None:
        self.edges.append(Edge(source, target, label))


async def flow(visit: Visit) -> Page | Response:
    found = Flow(visit)
    await _add_connectors(visit, found)
    await _add_queries(visit, found)
    await visit.site.calls.run(_add_pipelines, visit, found)
    _add_groups(visit, found)
    nodes = list(found.nodes.values())[:_MOST_NODES]
    data = {
        "nodes": nodes,
        "edges": found.edges,
        "problems": found.problems,
    }
    return Page("queries/flow.html", data, more={"drawing": draw(nodes, found.edges),
                                         "is_cut": len(found.nodes) > _MOST_NODES})  # fmt: skip


async def _add_connectors(visit: Visit, found: Flow) -> None:
    url = visit.site.settings.connect
    if url is None:
        return
    try:
        rows = await visit.site.calls.run(all_connectors, Remote(url, "Connect", timeout=5.0))
    except ClientError as error:
        found.problems.append(error.message)
        return
    for row in rows:
        bad = row["state"] == "FAILED" or row["failed"] > 0
        note = f"{row['state'].lower()}, {row['tasks']} tasks"
        href = visit.url("connectors", row["name"], "state")
        node = found.add(Node(f"connector:{row['name']}", row["name"], "connector", note, href, bad))
        for topic in row["topics"]:
            if row["type"] == "sink":
                found.link(found.topic(topic), node)
            else:
                found.link(node, found.topic(topic))


async def _add_queries(visit: Visit, found: Flow) -> None:
    url = visit.site.settings.sql
    if url is None:
        return
    try:
        queries = await visit.site.calls.run(_queries, Remote(url, "SQL", timeout=10.0))
    except ClientError as error:
        found.problems.append(error.message)
        return
    for query in queries:
        state = str(query["state"])
        bad = state == "ERROR"
        node = found.add(
            Node(f"query:{query['id']}", query["id"], "query", state.lower(), visit.url("sql"), bad)
        )
        for topic in query["reads"]:
            found.link(found.topic(topic), node)
        for topic in query["writes"]:
            found.link(node, found.topic(topic))


def _queries(remote: Remote) -> list[dict[str, Any]]:
    def ask(statement: str) -> Any:
        return (remote.request("POST", "/ksql", {"ksql": statement}) or [{}])[0]

    topics = {
        each["name"]: each["topic"]
        for statement, kind in (("LIST STREAMS;", "streams"), ("LIST TABLES;", "tables"))
        for each in ask(statement).get(kind, [])
    }
    rows = []
    for query in ask("LIST QUERIES;").get("queries", [])[:_MOST_QUERIES]:
        if query.get("queryType", "PERSISTENT") != "PERSISTENT":
            continue
        described = ask(f"EXPLAIN {query['id']};").get("queryDescription", {})
        sources = [topics.get(name, name) for name in described.get("sources", [])]
        sinks = query.get("sinkKafkaTopics") or [topics.get(name, name) for name in query.get("sinks", [])]
        rows.append({"id": query["id"], "state": query.get("state", ""), "reads": sources, "writes": sinks})
    return rows


def _add_pipelines(visit: Visit, found: Flow) -> None:
    """Those that run on this machine and read from this cluster."""
    try:
        from ottla.spark.pipelines.state import PipelineError, Pipelines
    except ImportError:
        return
    servers = set(visit.site.settings.client.servers.split(","))
    try:
        pipelines = Pipelines().all()
    except (PipelineError, OSError) as error:
        found.problems.append(str(error))
        return
    for pipeline in pipelines:
        if not servers & set(pipeline.bootstrap_servers.split(",")):
            continue
        for query in pipeline.queries:
            parts = [str(pipeline.phase)]
            if query.rows_in_per_second is not None:
                parts.append(f"{compact(query.rows_in_per_second)} rows/s")
            if query.batch_seconds is not None:
                parts.append(f"{query.batch_seconds:.1f} s a batch")
            name = f"{pipeline.name}/{query.name}"
            bad = str(pipeline.phase) in ("failed", "lost")
            node = found.add(Node(f"pipeline:{name}", name, "pipeline", ", ".join(parts), "", bad))
            label = "" if query.lag is None else f"lag {compact(query.lag)}"
            for topic in getattr(query, "reads", ()):
                found.link(found.topic(topic), node, label)


def _add_groups(visit: Visit, found: Flow) -> None:
    """Of what was measured last: nothing is asked of the cluster for it."""
    for group in visit.site.lags.groups()[:_MOST_GROUPS]:
        lags: dict[str, int] = {}
        for (topic, _), points in visit.site.lags.partitions(group).items():
            lags[topic] = lags.get(topic, 0) + points[-1][1]
        for topic, lag in lags.items():
            href = visit.url("groups", group, "lag")
            node = found.add(Node(f"group:{group}", group, "group", "", href))
            found.link(found.topic(topic), node, f"lag {compact(lag)}")
