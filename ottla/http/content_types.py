"""Content negotiation: match a route's types with the client's Accept header (RFC 9110, section 12.5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache


@lru_cache(maxsize=1024)
def best(accept: str, offered: tuple[str, ...]) -> str | None:
    """Return the best type, or None. The first offered type wins a tie."""
    ranges = _ranges(accept)
    if not ranges:
        return offered[0]
    chosen, weight = None, 0.0
    for each in offered:
        quality = _quality(each.partition(";")[0].strip().lower(), ranges)
        if quality > weight:
            chosen, weight = each, quality
    return chosen


def _ranges(accept: str) -> list[tuple[str, float]]:
    found = []
    for part in accept.split(","):
        name, *parameters = (each.strip() for each in part.split(";"))
        if not name:
            continue
        quality = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip().lower() == "q":
                try:
                    quality = min(max(float(value), 0.0), 1.0)
                except ValueError:
                    quality = 0.0
        found.append((name.lower(), quality))
    return found


def _quality(kind: str, ranges: Sequence[tuple[str, float]]) -> float:
    family = kind.partition("/")[0] + "/*"
    given = dict(ranges)
    for name in (kind, family, "*/*", "*"):
        if name in given:
            return given[name]
    return 0.0
