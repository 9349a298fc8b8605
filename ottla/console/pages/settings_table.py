"""Settings for pages: effective value, source, and documentation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.client.admin.configs import ConfigEntry
from ottla.console.access.hidden_values import without_logins

_SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": "this topic",
    "DYNAMIC_BROKER_CONFIG": "this broker, set at run time",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "all brokers, set at run time",
    "STATIC_BROKER_CONFIG": "server.properties",
    "DEFAULT_CONFIG": "default",
    "DYNAMIC_GROUP_CONFIG": "this group",
}


def _shown(value: str | None, sensitive: bool) -> str | None:
    return None if sensitive or value is None else without_logins(value)


def setting_rows(entries: Iterable[ConfigEntry]) -> list[dict[str, Any]]:
    rows = [
        {
            "name": entry.name,
            "value": _shown(entry.value, entry.sensitive),
            "sensitive": entry.sensitive,
            "read_only": entry.read_only,
            "source": entry.source,
            "where": _SOURCES.get(entry.source, entry.source),
            "default": _shown(entry.default, entry.sensitive),
            "is_default": entry.is_default,
            "documentation": entry.documentation,
            "synonyms": [
                {"name": each.name, "value": _shown(each.value, entry.sensitive),
                 "where": _SOURCES.get(each.source, each.source)}
                for each in entry.synonyms
            ],
        }
        for entry in entries
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (row["is_default"], row["name"]))
