"""Logs and measurements of a company's services. One of them is slow now and then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from random import Random
from typing import Any

HOUR = str(60 * 60 * 1000)
DAY = str(24 * 60 * 60 * 1000)

# Raw lines are of no use to anybody after an hour, figures after a day.
TOPICS = {
    "logs": {"partitions": "2", "retention.ms": HOUR},
    "metrics": {"partitions": "2", "retention.ms": HOUR},
    "log-counts": {"retention.ms": DAY},
    "metric-figures": {"retention.ms": DAY},
}

SERVICES = ("web", "search", "billing")


def events(seed: int, times: Iterable[datetime]) -> Iterator[tuple[str, str, dict[str, Any], datetime]]:
    random = Random(seed)
    for number, at in enumerate(times):
        service, stamp = random.choice(SERVICES), at.isoformat()
        is_bad = service == "billing" and number // 50 % 2 == 1
        if random.random() < 0.5:
            level = random.choices(("INFO", "WARN", "ERROR"), (5, 2, 8 if is_bad else 1))[0]
            yield (
                "logs",
                service,
                {"service": service, "level": level, "message": f"line {number}", "at": stamp},
                at,
            )
        else:
            value = random.randrange(500, 900) if is_bad else random.randrange(10, 100)
            yield "metrics", service, {"service": service, "name": "latency", "value": value, "at": stamp}, at
