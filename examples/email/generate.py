"""Mails that somebody wants to be sent: to whom, and which letter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from random import Random
from typing import Any

TOPICS = {"mails": {"partitions": "4"}}

NAMES = ("ada", "ben", "cleo", "dan", "eva", "finn", "gus", "hana")
LETTERS = ("welcome", "receipt", "reminder")


def events(seed: int, times: Iterable[datetime]) -> Iterator[tuple[str, str, dict[str, Any], datetime]]:
    random = Random(seed)
    for number, at in enumerate(times):
        name = random.choice(NAMES)
        letter = {
            "number": number,
            "letter": random.choice(LETTERS),
            "name": name.title(),
            "amount": random.randrange(99),
        }
        yield "mails", name, {**letter, "to": f"{name}@example.org"}, at
