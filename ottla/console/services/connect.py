"""Connectors as Connect's REST API lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.console.services.remote import Remote

# A new connector has a config, but no status until a worker starts it.
NOT_STARTED: dict[str, Any] = {"connector": {"state": "UNASSIGNED"}}


def all_connectors(remote: Remote) -> list[dict[str, Any]]:
    statuses = remote.request("GET", "/connectors?expand=status") or {}
    infos = remote.request("GET", "/connectors?expand=info") or {}
    rows = []
    for name in sorted({*statuses, *infos}):
        status = statuses.get(name, {}).get("status", NOT_STARTED)
        info = infos.get(name, {}).get("info", {})
        tasks = status.get("tasks", [])
        rows.append(
            {
                "name": name,
                "type": info.get("type") or status.get("type", ""),
                "class": info.get("config", {}).get("connector.class", ""),
                "state": status.get("connector", {}).get("state", ""),
                "tasks": len(tasks),
                "failed": sum(each.get("state") == "FAILED" for each in tasks),
                "topics": topics_in(info.get("config", {})),
                "dead_letters": str(info.get("config", {}).get("errors.deadletterqueue.topic.name", "")),
            }
        )
    return rows


def topics_in(config: Mapping[str, str]) -> list[str]:
    found = [*config.get("topics", "").split(","), *config.get("topic", "").split(",")]
    return sorted({each.strip() for each in found if each.strip()})
