from __future__ import annotations

import math
from collections import defaultdict
from datetime import datetime
from typing import Any

from .conftest import Example


def prices(events: list[Any]) -> dict[tuple[str, datetime], dict[str, Any]]:
    seen: dict[tuple[str, datetime], dict[str, set[str]]] = defaultdict(
        lambda: {"taxi": set(), "user": set()}
    )
    for topic, name, value, at in events:
        region = f"{math.floor(value['lat'] * 100)},{math.floor(value['lon'] * 100)}"
        seen[region, at.replace(second=0, microsecond=0)][topic.removesuffix("-positions")].add(name)
    expected = {}
    for place, found in seen.items():
        taxis, users = len(found["taxi"]), len(found["user"])
        price = round(max(1.0, min(3.0, users / max(taxis, 1))), 2)
        expected[place] = {"taxis": taxis, "users": users, "price": price}
    return expected


def test_rides_cost_more_where_more_people_than_taxis_are(example: Example) -> None:
    events = example.events(400, seconds=0.5)
    example.send(events)
    example.run()
    found = {
        (value.pop("region"), datetime.fromisoformat(value.pop("minute"))): value
        for value in example.latest("surge-prices").values()
    }
    assert found == prices(events)
    assert {1.0, 3.0} <= {value["price"] for value in found.values()}
