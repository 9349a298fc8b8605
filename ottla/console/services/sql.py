"""Queries of an `ottla sql server` or ksqlDB. Only the former reports their rates, at /metrics."""

from __future__ import annotations

import re
from typing import Any

from ottla.client.errors import ClientError
from ottla.console.services.remote import Remote

_MOST_QUERIES = 40
_FIGURE = re.compile(
    r'ottla_query_(input_rows_per_second|output_rows_per_second|lag|batch_seconds)\{[^}]*\bquery="([^"]*)"[^}]*\} (\S+)'
)


def queries_of(remote: Remote) -> list[dict[str, Any]]:
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


def figures_of(remote: Remote) -> dict[str, dict[str, float]]:
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
