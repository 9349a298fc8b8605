"""Payments from accounts, and owners who say above which amount they want to hear of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from random import Random
from typing import Any

TOPICS = {
    "thresholds": {},
    "payments": {"partitions": "2"},
    "alerts": {},
}

ACCOUNTS = tuple(f"NL{number:02}" for number in range(8))


def events(seed: int, times: Iterable[datetime]) -> Iterator[tuple[str, str, dict[str, Any], datetime]]:
    random = Random(seed)
    for number, at in enumerate(times):
        account, stamp = random.choice(ACCOUNTS), at.isoformat()
        if random.random() < 0.15:
            yield (
                "thresholds",
                account,
                {"account": account, "above": random.choice((50, 100, 200)), "at": stamp},
                at,
            )
        else:
            amount = round(random.expovariate(1 / 80), 2)
            yield (
                "payments",
                account,
                {"payment": number, "account": account, "amount": amount, "at": stamp},
                at,
            )
