"""Queries of an `ottla sql server` or ksqlDB. Only the former reports their rates, at /metrics."""

from __future__ import annotations

import re
from typing import Any

from ottla.client.errors import ClientError
from ottla.console.flows.flow import Flow
from ottla.console.remote import Remote
from ottla.console.web.graph import Node
from ottla.console.web.visit import Visit

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
