"""People who watch shows: every half minute the player tells where it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from random import Random
from typing import Any

TOPICS = {
    "show_position": {"partitions": "3"},
    "resume_positions": {"cleanup.policy": "compact"},
    "profiles": {"cleanup.policy": "compact"},
    "recommendations": {"cleanup.policy": "compact"},
}

# As in pipeline.py.
CATALOGUE = {
    "comedy": ("Office Hours", "Two Left Feet", "The Landlord", "Plan B", "Family Size"),
    "crime": ("Cold Harbour", "The Ledger", "Night Shift", "Blind Spot", "The Ninth Key"),
    "drama": ("The Orchard", "Late Summer", "A Quiet House", "Crossings", "Second Violin"),
    "science": ("Deep Water", "Small Worlds", "The Long Proof", "Ice Core", "Signal"),
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
        yield "show_position", user, {**play, "watched": STEP, "at": at.isoformat()}, at
