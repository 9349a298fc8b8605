"""People who watch shows: every half minute the player tells where it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from random import Random
from typing import Any

TOPICS = {
    "plays": {"partitions": "3"},
    "resume": {"cleanup.policy": "compact"},
    "profiles": {"cleanup.policy": "compact"},
}

CATALOGUE = {
    "comedy": ("Office Hours", "Two Left Feet", "The Landlord"),
    "crime": ("Cold Harbour", "The Ledger", "Night Shift"),
    "science": ("Deep Water", "Small Worlds", "The Long Proof"),
}
USERS = ("ada", "ben", "cleo", "dan", "eva")
STEP = 30
LENGTH = 300


def events(seed: int, times: Iterable[datetime]) -> Iterator[tuple[str, str, dict[str, Any], datetime]]:
    random = Random(seed)
    playing: dict[str, tuple[str, str, int]] = {}
    for at in times:
        user = random.choice(USERS)
        # Now and then somebody changes to another show before the end.
        genre, show, position = playing.get(user, ("", "", LENGTH))
        if position >= LENGTH or random.random() < 0.15:
            genre = random.choice(sorted(CATALOGUE))
            show, position = random.choice(CATALOGUE[genre]), random.choice((0, 0, 60, 120))
        position = min(LENGTH, position + STEP)
        playing[user] = genre, show, position
        play = {"user": user, "show": show, "genre": genre, "position": position, "length": LENGTH}
        yield "plays", user, {**play, "watched": STEP, "at": at.isoformat()}, at
