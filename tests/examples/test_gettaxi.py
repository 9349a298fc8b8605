from __future__ import annotations

import math
from collections import defaultdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from .conftest import Example

METRES = 111_320


def minute_of(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def region_of(value: dict[str, Any]) -> str:
    return f"{math.floor(value['lat'] * 100)},{math.floor(value['lon'] * 100)}"


def distance(one: dict[str, Any], other: dict[str, Any]) -> float:
    east = (one["lon"] - other["lon"]) * math.cos(math.radians(one["lat"]))
    return METRES * math.hypot(one["lat"] - other["lat"], east)


def prices(events: list[Any]) -> dict[tuple[str, datetime], dict[str, Any]]:
    seen: dict[tuple[str, datetime], dict[str, set[str]]] = defaultdict(
        lambda: {"taxi": set(), "user": set()}
    )
    for topic, name, value, at in events:
        free = seen[region_of(value), minute_of(at)]
        if value["ride"] is None:
            free[topic.removesuffix("_position")].add(name)
    expected = {}
    for place, found in seen.items():
        taxis, users = len(found["taxi"]), len(found["user"])
        price = round(max(1.0, min(3.0, users / max(taxis, 1))), 2)
        expected[place] = {"taxis": taxis, "users": users, "price": price}
    return expected


def matches(events: list[Any]) -> dict[tuple[datetime, str], tuple[str, int]]:
    minutes: dict[datetime, dict[str, dict[str, Any]]] = defaultdict(dict)
    for _, name, value, at in events:
        minutes[minute_of(at)][name] = value
    expected = {}
    for minute, last in minutes.items():
        free = {name: value for name, value in last.items() if value["ride"] is None}
        users, taxis = ({name for name in free if name.startswith(kind)} for kind in ("user", "taxi"))
        while users and taxis:
            metres, user, taxi = min(
                (round(distance(free[user], free[taxi])), user, taxi) for user in users for taxi in taxis
            )
            if metres > 2000:
                break
            expected[minute, user] = taxi, metres
            users.remove(user)
            taxis.remove(taxi)
    return expected


def costs(events: list[Any]) -> dict[str, tuple[float, float]]:
    """Return the start price and the cost of each ride."""
    ways: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for topic, _, value, _ in events:
        if topic == "taxi_position" and value["ride"] is not None:
            ways[value["ride"]].append(value)
    known, expected = prices(events), {}
    for ride, way in ways.items():
        times = [datetime.fromisoformat(value["at"]) for value in way]
        kilometres = sum(distance(there, here) for here, there in pairwise(way)) / 1000
        minutes = (times[-1] - times[0]).total_seconds() / 60
        price = known[region_of(way[0]), minute_of(times[0])]["price"]
        expected[ride] = price, price * (3 + 2 * kilometres + 0.4 * minutes)
    return expected


def test_rides_are_priced_matched_and_charged(example: Example, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    example.set("spark.example.store", store)
    events = example.events(900, seconds=0.2)
    for part in (events[:500], events[500:]):  # splits a minute
        example.send(part)
        example.run()

    found = {
        (value.pop("region"), datetime.fromisoformat(value.pop("minute"))): value
        for value in example.latest("surge_pricing").values()
    }
    assert found == prices(events)
    assert {1.0, 3.0} <= {value["price"] for value in found.values()}

    matched = {
        (datetime.fromisoformat(value["minute"]), value["user"]): (value["taxi"], value["metres"])
        for value in example.latest("matches").values()
    }
    assert matched == matches(events)
    # Some rider had a match within a minute and none at its end: the pipeline retracted it.
    assert matches(events[:500]).keys() - matched.keys()

    kept = example.spark.read.parquet(store)
    assert kept.count() == len(events)
    charged = {row.ride: (row.price, row.cost) for row in example.module("pipeline").costs(kept).collect()}
    assert charged == {
        ride: (price, pytest.approx(cost, abs=0.02)) for ride, (price, cost) in costs(events).items()
    }
    assert len(charged) > 10
