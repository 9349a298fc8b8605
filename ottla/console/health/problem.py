"""A problem: its severity, cause, page and remedy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

#: A note needs no action now and does not count as a problem.
Severity = Literal["error", "warning", "note"]
Area = Literal[
    "brokers", "partitions", "disks", "groups", "connectors", "queries", "pipelines", "mirrors", "dead letters",
    "certificates", "audit", "services",
]  # fmt: skip

_ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True, slots=True)
class Problem:
    """`path` is the page below the cluster that shows more; `name` is the broker, group, connector … or empty."""

    severity: Severity
    area: Area
    name: str
    text: str
    fix: str
    path: tuple[str, ...]

    @property
    def counts(self) -> bool:
        return self.severity != "note"


def worst_first(problems: Iterable[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda each: _ORDER[each.severity])


def verdict(problems: Iterable[Problem]) -> Literal["ok", "warning", "error"]:
    found = {each.severity for each in problems}
    return "error" if "error" in found else "warning" if "warning" in found else "ok"


@dataclass(frozen=True, slots=True)
class Badge:
    count: int
    severity: Severity


def badges(problems: Iterable[Problem]) -> defaultdict[str, Badge | None]:
    """Return a badge per menu entry: problems by the page that they lead to, and all of them at the alerts."""
    found: defaultdict[str, Badge | None] = defaultdict(lambda: None)
    for each in filter(lambda problem: problem.counts, worst_first(problems)):
        for entry in {each.path[0], "alerts"} - {"overview", "brokers"}:
            before = found[entry]
            found[entry] = (
                Badge(1, each.severity) if before is None else Badge(before.count + 1, before.severity)
            )
    return found
