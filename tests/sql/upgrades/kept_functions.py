"""An aggregate whose state holds every kind of value that a Python aggregate may keep."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Annotated, Any

from ottla.sql import udaf


@udaf
class Spread:
    """The number of distinct items, the total price and the latest day, as one text."""

    def initialize(self) -> dict[str, Any]:
        return {
            "items": set(),
            "total": Decimal("0.00"),
            "days": [],
            "at": None,
            "big": 1 << 70,
            "raw": b"\x80",
        }

    def aggregate(
        self,
        item: str,
        price: Annotated[Decimal, "DECIMAL(8, 2)"],
        day: datetime.date,
        at: datetime.datetime,
        state: dict[str, Any],
    ) -> dict[str, Any]:
        return {
            **state,
            "items": state["items"] | {item},
            "total": state["total"] + price,
            "days": [*state["days"], day],
            "at": at,
            "big": state["big"] + 1,
        }

    def map(self, state: dict[str, Any]) -> str:
        days = ",".join(sorted({each.isoformat() for each in state["days"]}))
        latest = None if state["at"] is None else state["at"].isoformat()
        return f"{sorted(state['items'])} {state['total']} {days} {latest} {state['big'] - (1 << 70)}"
