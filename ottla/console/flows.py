"""The flow of data between topics: groups, connectors, pipelines, SQL queries and mirrors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from struct import Struct
from typing import Any
from weakref import WeakKeyDictionary

from ottla.client.admin.configs import Resource, describe_many
from ottla.client.admin.offsets import earliest_offsets, latest_offsets
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.console.access.roles import Level
from ottla.console.cluster.site import Site
from ottla.console.cluster.snapshot import Snapshot
from ottla.console.cluster.source import Source
from ottla.console.messages.reading import last_of_partition
from ottla.console.pages.connectors import all_connectors
from ottla.console.remote import Remote
from ottla.console.web.charts import Edge, Node, compact
from ottla.console.web.visit import Visit
from ottla.protocol.internal_topics import MIRROR_LINK

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
    ) -> None:
        """Add an edge. `rate` is in rows per second; `seconds` is the duration of a micro-batch."""
        parts = [] if rate is None else [f"{compact(rate)} rows/s"]
        parts += [] if lag is None else [f"lag {compact(lag)}"]
        parts += [] if seconds is None else [f"{seconds:.1f} s a batch"]
        self.edges.append(Edge(source, target, " · ".join(parts), rate, lag, seconds))


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
            node = found.add(Node(f"group:{group}", group, "group", "", href))
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
        note = f"{row['state'].lower()}, {row['tasks']} tasks"
        href = visit.url("connectors", row["name"], "state")
        node = found.add(Node(f"connector:{row['name']}", row["name"], "connector", note, href, bad))
        for topic in row["topics"]:
            if row["type"] == "sink":
                found.link(found.topic(topic), node, lag=lag_of_sink(visit, row["name"], topic))
            else:
                found.link(node, found.topic(topic), rate=found.rate(topic))


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

_MOST_QUERIES = 40
_FIGURE = re.compile(
    r'ottla_query_(input_rows_per_second|output_rows_per_second|lag|batch_seconds)\{[^}]*\bquery="([^"]*)"[^}]*\} (\S+)'
)


async def add_queries(visit: Visit, found: Flow) -> None:
    url = visit.site.settings.sql
    if url is None:
        return
    remote = Remote(url, "SQL", timeout=10.0)
    try:
        queries = await visit.site.calls.run(_queries, remote)
        figures = await visit.site.calls.run(_figures, remote) if queries else {}
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


def _figures(remote: Remote) -> dict[str, dict[str, float]]:
    try:
        text = remote.text("/metrics")
    except ClientError:
        return {}
    found: dict[str, dict[str, float]] = {}
    for name, query, value in _FIGURE.findall(text):
        try:
            found.setdefault(query, {})[name] = float(value)
        except ValueError:
            continue
    return found


# Mirrors, recognised by their traces: internal topics of Kafka's or Ottla's MirrorMaker, and topics of a link.
#
# - `mm2-offsets.SOURCE.internal`, on the target: progress of each partition;
# - `mm2-offset-syncs.TARGET.internal`, on the source: topics copied from here;
# - the setting `ottla.mirror.link` of a topic written by a link.

_FROM = re.compile(r"mm2-offsets\.(.+)\.internal")
_TO = re.compile(r"mm2-offset-syncs\.(.+)\.internal")
_INT16 = Struct(">h")
_MOST_RECORDS = 2000
#: Topics whose settings are queried for links.
_MOST_TOPICS = 500
_SOURCE_CONNECTOR = "MirrorSourceConnector"

Partition = tuple[str, int]
_kept: WeakKeyDictionary[Site, tuple[Snapshot, list[Mirror], dict[str, list[str]]]] = WeakKeyDictionary()


@dataclass
class Mirror:
    """`other` is the alias of the other cluster. An incoming mirror has positions by source partition."""

    other: str
    is_incoming: bool
    topics: set[str] = field(default_factory=set)  # topics in this cluster
    positions: dict[Partition, int] = field(default_factory=dict)


def find_mirrors(cluster: Cluster, snapshot: Snapshot) -> list[Mirror]:
    found = []
    for name in sorted(snapshot.topics):
        if match := _FROM.fullmatch(name):
            found.append(_incoming(match.group(1), _last_records(cluster, snapshot, name), snapshot))
        elif match := _TO.fullmatch(name):
            copied = {topic for key, _ in _last_records(cluster, snapshot, name) if (topic := _synced(key))}
            found.append(Mirror(match.group(1), False, copied & snapshot.topics.keys()))
    return found


def find_links(cluster: Cluster, topics: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    resources = [Resource("topic", each) for each in topics]
    for resource, entries in describe_many(cluster, resources, names=[MIRROR_LINK], synonyms=False).items():
        for entry in entries:
            if entry.name == MIRROR_LINK and entry.value:
                found.setdefault(entry.value, []).append(resource.name)
    return found


def _last_records(cluster: Cluster, snapshot: Snapshot, topic: str) -> Iterable[tuple[bytes, bytes | None]]:
    """Read the last records, which suffice because the topics are compacted."""
    keys = [(topic, each.number) for each in snapshot.topics[topic].partitions if each.leader is not None]
    starts, ends = earliest_offsets(cluster, keys), latest_offsets(cluster, keys)
    for key in keys:
        if ends[key] > starts[key]:
            for each in last_of_partition(
                cluster, key, starts[key], ends[key], _MOST_RECORDS, committed_only=True
            ):
                if each.key is not None:
                    yield each.key, each.value


def _incoming(source: str, records: Iterable[tuple[bytes, bytes | None]], snapshot: Snapshot) -> Mirror:
    mirror = Mirror(source, True)
    for key, value in records:
        read = _position(key, value)
        if read is None:
            continue
        cluster, partition, offset = read
        if cluster != source:
            continue
        if offset is None:
            mirror.positions.pop(partition, None)
        else:
            mirror.positions[partition] = offset
    for topic, _ in mirror.positions:
        # The local names depend on an unknown policy; these are Kafka's two.
        names = [each for each in (f"{source}.{topic}", topic) if each in snapshot.topics]
        mirror.topics |= set(names[:1])
    return mirror


def _position(key: bytes, value: bytes | None) -> tuple[str, Partition, int | None] | None:
    """Return cluster, partition and last offset from a Connect offset record; None for other records."""
    try:
        connector, where = json.loads(key)
        if connector != _SOURCE_CONNECTOR:
            return None
        offset = None if value is None else int(json.loads(value)["offset"])
        return str(where["cluster"]), (str(where["topic"]), int(where["partition"])), offset
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _synced(key: bytes) -> str | None:
    if len(key) < 2:
        return None
    (length,) = _INT16.unpack_from(key)
    return key[2 : 2 + length].decode("utf-8", "replace") if 0 < length <= len(key) - 2 else None


async def add_mirrors(visit: Visit, found: Flow) -> None:
    snapshot = await visit.site.snapshots.current()
    try:
        mirrors, links = await _all_of(visit.site, snapshot)
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


async def _all_of(site: Site, snapshot: Snapshot) -> tuple[list[Mirror], dict[str, list[str]]]:
    """Find the mirrors once per snapshot, regardless of the number of visitors."""
    kept = _kept.get(site)
    if kept is not None and kept[0] is snapshot:
        return kept[1], kept[2]
    mirrors = await site.calls.read(find_mirrors, snapshot)
    ours = [name for name, topic in snapshot.topics.items() if not topic.internal]
    links: dict[str, list[str]] = {}
    if 0 < len(ours) <= _MOST_TOPICS:
        with suppress(ClientError):  # without the right to read settings no links are shown
            links = await site.calls.read(find_links, ours)
    _kept[site] = snapshot, mirrors, links
    return mirrors, links


async def _add(visit: Visit, found: Flow, mirror: Mirror) -> None:
    here, other = visit.site.name, mirror.other
    known = visit.app.sites.get(other)
    href = f"/clusters/{known.name}/flow" if known is not None else ""
    cluster = found.add(Node(f"cluster:{other}", other, "cluster", "", href))
    names = (other, here) if mirror.is_incoming else (here, other)
    label = " → ".join(names)
    node = found.add(Node(f"mirror:{label}", label, "mirror", f"{len(mirror.topics)} topics"))
    if mirror.is_incoming:
        found.link(cluster, node, lag=await _lag(visit, mirror))
    else:
        found.link(node, cluster)
    for topic in sorted(mirror.topics):
        if mirror.is_incoming:
            found.link(node, found.topic(topic), rate=found.rate(topic))
        else:
            found.link(found.topic(topic), node, rate=found.rate(topic))


async def _lag(visit: Visit, mirror: Mirror) -> int | None:
    site = visit.app.sites.get(mirror.other)
    if site is None:
        return None

    def ends(source: Source) -> dict[Partition, int]:
        return source.ends(list(mirror.positions))

    try:
        found = await site.ask(ends)
    except ClientError:
        return None
    return sum(
        max(found[partition] - 1 - last, 0)
        for partition, last in mirror.positions.items()
        if partition in found
    )
