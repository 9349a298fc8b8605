"""Clicks on the pages of a site over a few days."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from random import Random
from typing import Any

TOPICS = {
    "clicks": {"partitions": "3"},
    "page-views": {"cleanup.policy": "compact"},
}

PAGES = ("/", "/prices", "/docs", "/docs/start", "/blog")


def events(seed: int, times: Iterable[datetime]) -> Iterator[tuple[str, str, dict[str, Any], datetime]]:
    random = Random(seed)
    for number, at in enumerate(times):
        visitor = f"visitor-{random.randrange(50)}"
        page = random.choices(PAGES, (5, 2, 3, 2, 1))[0]
        click = {"id": number, "visitor": visitor, "page": page, "milliseconds": random.randrange(20, 900)}
        yield "clicks", visitor, {**click, "at": at.isoformat()}, at
