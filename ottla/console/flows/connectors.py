"""Connectors, with the topics in their configs."""

from __future__ import annotations

from ottla.client.errors import ClientError
from ottla.console.access.roles import Level
from ottla.console.flows.flow import Flow
from ottla.console.flows.groups import lag_of_sink
from ottla.console.pages.connectors import all_connectors
from ottla.console.remote import Remote
from ottla.console.web.graph import Node
from ottla.console.web.visit import Visit


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
