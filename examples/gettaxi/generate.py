"""Taxis and people who look for one, somewhere in a small town."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from random import Random
from typing import Any

TOPICS = {
    "taxi-positions": {"partitions": "2"},
    "user-positions": {"partitions": "2"},
    "surge-prices": {"cleanup.policy": "compact"},
}

TAXIS = 12
USERS = 40


def events(seed: int, times: Iterable[datetime]) -> Iterator[tuple[str, str, dict[str, Any], datetime]]:
    random = Random(seed)
    for at in times:
        # More people than taxis are around the station, at 52.37 and 4.90.
        if random.random() < 0.4:
            kind, number, spread = "taxi", random.randrange(TAXIS), 0.02
        else:
            kind, number, spread = "user", random.randrange(USERS), 0.01
        name = f"{kind}-{number}"
        position = {
            "lat": round(random.gauss(52.375, spread), 5),
            "lon": round(random.gauss(4.905, spread), 5),
        }
        yield f"{kind}-positions", name, {kind: name, **position, "at": at.isoformat()}, at
