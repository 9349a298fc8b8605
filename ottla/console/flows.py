"""The flow of data between topics: groups, connectors, pipelines, SQL queries and mirrors."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from ottla.client.errors import ClientError
from ottla.console.access.roles import Level
from ottla.console.health.trends import was_rising
from ottla.console.services.connect import all_connectors
from ottla.console.services.mirrors import Mirror, mirror_lag, mirrors_of
from ottla.console.services.remote import Remote
from ottla.console.services.sql import figures_of, queries_of
from ottla.console.web.charts import Edge, Node, compact
from ottla.console.web.visit import Visit

# The graph under construction: nodes by id, and edges with their rates.

_MOST_PARTITIONS = 1000


class Flow:
    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self.nodes: dict[str, Node] = {}
        self.edges: list[Edge] = []
        self.problems: list[str] = []

    def topic(self, name: str) -> str:
        rate = self.rate(name)
        note = "" if rate is None else f"{compact(rate)}/s"
        href = self._visit.url("topics", name, "partitions")
        return self.add(Node(f"topic:{name}", name, "topic", note, href))

    def rate(self, topic: str) -> float | None:
        return self._visit.site.rates.of_topic(topic, _MOST_PARTITIONS) if topic else None

    def add(self, node: Node) -> str:
        self.nodes.setdefault(node.id, node)
        return node.id

    def link(
        self,
        source: str,
        target: str,
        *,
        rate: float | None = None,
        lag: int | None = None,
        seconds: float | None = None,
        what: str = "",
    ) -> None:
        """Add an edge. `rate` is in rows per second; `seconds` is the duration of a micro-batch."""
        parts = [what] if what else []
        parts += [] if rate is None else [f"{compact(rate)} rows/s"]
        parts += [] if lag is None else [f"lag {compact(lag)}"]
        parts += [] if seconds is None else [f"{seconds:.1f} s a batch"]
        self.edges.append(Edge(source, target, " · ".join(parts), rate, lag, seconds))


# The part of the graph that a visitor looks at. Pure.

#: Groups of a topic that are drawn one by one.
_MOST_ALONE = 4


def merged(nodes: Iterable[Node], edges: Sequence[Edge]) -> tuple[list[Node], list[Edge]]:
    """Draw many groups that read the same topics as one node with the largest lag."""
    kinds = {node.id: node for node in nodes}
    reads: dict[str, set[str]] = {}
    for edge in edges:
        if edge.target in kinds and kinds[edge.target].kind == "group":
            reads.setdefault(edge.target, set()).add(edge.source)
    alike: dict[frozenset[str], list[str]] = {}
    for group, topics in reads.items():
        alike.setdefault(frozenset(topics), []).append(group)
    names: dict[str, str] = {}
    extra: list[Node] = []
    for together, groups in alike.items():
        if len(groups) > _MOST_ALONE:
            new = f"groups:{','.join(sorted(together))}"
            names |= dict.fromkeys(groups, new)
            shown = ", ".join(sorted(kinds[each].label for each in groups)[:3])
            bad = any(kinds[each].is_bad for each in groups)
            extra.append(Node(new, f"{len(groups)} groups", "group", f"{shown}, …", "", bad))
    kept = [node for node in kinds.values() if node.id not in names]
    joined: dict[tuple[str, str], Edge] = {}
    for edge in edges:
        ends = names.get(edge.source, edge.source), names.get(edge.target, edge.target)
        if ends[1] not in names.values():
            joined[ends[0], ends[1] + edge.label] = edge
            continue
        before = joined.get(ends)
        lag = max(edge.lag or 0, before.lag or 0 if before is not None else 0)
        joined[ends] = Edge(*ends, f"lag up to {compact(lag)}", lag=lag)
    return kept + extra, list(joined.values())


def neighbourhood(
    nodes: Sequence[Node], edges: Sequence[Edge], chosen: Container[str], steps: int
) -> tuple[list[Node], list[Edge]]:
    """Return the nodes within some steps up and down the stream from the chosen ones, and their edges."""
    start = {node.id for node in nodes if node.id in chosen}
    found = set(start)
    for forward in (True, False):
        front = set(start)
        for _ in range(steps):
            pairs = [(edge.source, edge.target) if forward else (edge.target, edge.source) for edge in edges]
            front = {there for here, there in pairs if here in front} - found
            found |= front
    kept = [node for node in nodes if node.id in found]
    return kept, [edge for edge in edges if edge.source in found and edge.target in found]


# Groups and their last measured lag, without queries to the cluster.

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
            points = visit.site.lags.total(group)
            note = "lag rises" if was_rising(points) else ""
            node = found.add(Node(f"group:{group}", group, "group", note, href, bool(note)))
            found.link(found.topic(topic), node, lag=lag)


# Connectors, with the topics in their configs.


async def add_connectors(visit: Visit, found: Flow) -> None:
    url = visit.site.settings.connect
    if url is None or not visit.user.may(Level.VIEWER, "connector"):
        return
    try:
        rows = await visit.site.calls.run(all_connectors, Remote(url, "Connect", timeout=5.0))
    except ClientError as error:
        found.problems.append(error.message)
        return
    sees = visit.user.view("connector")
    for row in filter(lambda row: sees(row["name"]), rows):
        bad = row["state"] == "FAILED" or row["failed"] > 0
        tasks = "1 task" if row["tasks"] == 1 else f"{row['tasks']} tasks"
        note = f"{row['state'].lower()}, {tasks}"
        if row["failed"] and row["state"] != "FAILED":
            note = f"{row['failed']} of {tasks} failed"
        href = visit.url("connectors", row["name"], "state")
        node = found.add(Node(f"connector:{row['name']}", row["name"], "connector", note, href, bad))
        for topic in row["topics"]:
            if row["type"] == "sink":
                found.link(found.topic(topic), node, lag=lag_of_sink(visit, row["name"], topic))
            else:
                found.link(node, found.topic(topic), rate=found.rate(topic))
        if row["dead_letters"]:
            letters = row["dead_letters"]
            found.link(node, found.topic(letters), rate=found.rate(letters), what="dead letters")


# Pipelines of this user on this machine that use this cluster.


def add_pipelines(visit: Visit, found: Flow) -> None:
    """Add the pipelines. Reads files, so run it in a thread."""
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
            if f"query:{query.name}" in found.nodes:
                continue  # a query of the SQL server, shown already
            name = f"{pipeline.name}/{query.name}"
            bad = str(pipeline.phase) in ("failed", "lost")
            node = found.add(Node(f"pipeline:{name}", name, "pipeline", str(pipeline.phase), "", bad))
            for topic in query.reads:
                found.link(
                    found.topic(topic),
                    node,
                    rate=query.rows_in_per_second,
                    lag=query.lag,
                    seconds=query.batch_seconds,
                )
            for topic in query.writes:
                # Not every sink counts its output.
                rate = query.rows_out_per_second
                found.link(node, found.topic(topic), rate=found.rate(topic) if rate is None else rate)


# Queries of an `ottla sql server` or ksqlDB. Only the former reports their rates, at /metrics.


async def add_queries(visit: Visit, found: Flow) -> None:
    url = visit.site.settings.sql
    if url is None:
        return
    remote = Remote(url, "SQL", timeout=10.0)
    try:
        queries = await visit.site.calls.run(queries_of, remote)
        figures = await visit.site.calls.run(figures_of, remote) if queries else {}
    except ClientError as error:
        found.problems.append(error.message)
        return
    for query in queries:
        state = str(query["state"])
        node = found.add(
            Node(
                f"query:{query['id']}",
                query["id"],
                "query",
                state.lower(),
                visit.url("sql"),
                state == "ERROR",
            )
        )
        known = figures.get(query["id"], {})
        lag = known.get("lag")
        for topic in query["reads"]:
            found.link(
                found.topic(topic),
                node,
                rate=known.get("input_rows_per_second"),
                lag=None if lag is None else int(lag),
                seconds=known.get("batch_seconds"),
            )
        for topic in query["writes"]:
            found.link(node, found.topic(topic), rate=known.get("output_rows_per_second", found.rate(topic)))


# Mirrors


async def add_mirrors(visit: Visit, found: Flow) -> None:
    snapshot = await visit.site.snapshots.current()
    try:
        mirrors, links = await mirrors_of(visit.site, snapshot)
    except ClientError as error:
        found.problems.append(error.message)
        return
    for mirror in mirrors:
        if mirror.topics:
            await _add(visit, found, mirror)
    for link, topics in links.items():
        node = found.add(Node(f"mirror:{link}", link, "mirror", f"link, {len(topics)} topics"))
        for topic in sorted(topics):
            found.link(node, found.topic(topic), rate=found.rate(topic))


async def _add(visit: Visit, found: Flow, mirror: Mirror) -> None:
    here, other = visit.site.name, mirror.other
    known = visit.app.sites.get(other)
    href = f"/clusters/{known.name}/flow" if known is not None else ""
    cluster = found.add(Node(f"cluster:{other}", other, "cluster", "", href))
    names = (other, here) if mirror.is_incoming else (here, other)
    label = " → ".join(names)
    node = found.add(Node(f"mirror:{label}", label, "mirror", f"{len(mirror.topics)} topics"))
    if mirror.is_incoming:
        found.link(cluster, node, lag=await mirror_lag(visit.app.sites, mirror))
    else:
        found.link(node, cluster)
    for topic in sorted(mirror.topics):
        if mirror.is_incoming:
            found.link(node, found.topic(topic), rate=found.rate(topic))
        else:
            found.link(found.topic(topic), node, rate=found.rate(topic))
