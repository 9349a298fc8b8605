"""Taxis, people who look for one, and rides, somewhere in a small town."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from random import Random
from typing import Any

TOPICS = {
    "taxi_position": {"partitions": "2"},
    "user_position": {"partitions": "2"},
    "surge_pricing": {"cleanup.policy": "compact"},
    "matches": {"cleanup.policy": "compact"},
}

TAXIS = tuple(f"taxi-{number}" for number in range(12))
USERS = tuple(f"user-{number}" for number in range(40))
# More people than taxis are around the station.
STATION = 52.375, 4.905

Place = tuple[float, float]


class Town:
    """Where everybody is. A ride is a user and a taxi that go the same way for a while."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._places = {name: self._somewhere(name) for name in (*TAXIS, *USERS)}
        self._rides: dict[
            str, tuple[str, Place, int]
        ] = {}  # by taxi: the user, each step, and how many are left
        self._names: dict[str, str] = {}  # by taxi and by user: the ride
        self._count = 0

    def _somewhere(self, name: str) -> Place:
        spread = 0.02 if name in TAXIS else 0.01
        return self._random.gauss(STATION[0], spread), self._random.gauss(STATION[1], spread)

    def tick(self) -> list[str]:
        """Return the users that report their position now. Users who share a ride report together."""
        taxi = self._random.choice(TAXIS)
        if taxi in self._rides:
            return [taxi, self._drive(taxi)]
        if self._random.random() < 0.4:
            self._move(taxi, (self._random.gauss(0, 0.001), self._random.gauss(0, 0.001)))
            return [taxi]
        user = self._random.choice(USERS)
        if user not in self._names and self._random.random() < 0.1:
            self._begin_ride(taxi, user)
            return [taxi, user]
        return [] if user in self._names else [user]

    def _begin_ride(self, taxi: str, user: str) -> None:
        self._count += 1
        self._names[taxi] = self._names[user] = f"ride-{self._count}"
        self._places[taxi] = self._places[user]
        step = self._random.gauss(0, 0.002), self._random.gauss(0, 0.002)
        self._rides[taxi] = user, step, self._random.randint(2, 8)

    def _drive(self, taxi: str) -> str:
        user, step, left = self._rides[taxi]
        if left:
            self._move(taxi, step)
            self._places[user] = self._places[taxi]
            self._rides[taxi] = user, step, left - 1
        else:
            del self._rides[taxi], self._names[taxi], self._names[user]
            self._places[user] = self._somewhere(user)
        return user

    def _move(self, name: str, step: Place) -> None:
        lat, lon = self._places[name]
        self._places[name] = lat + step[0], lon + step[1]

    def told(self, name: str, at: datetime) -> tuple[str, str, dict[str, Any], datetime]:
        kind = name.partition("-")[0]
        lat, lon = self._places[name]
        value = {kind: name, "lat": round(lat, 5), "lon": round(lon, 5), "ride": self._names.get(name)}
        return f"{kind}_position", name, {**value, "at": at.isoformat()}, at


def events(seed: int, times: Iterable[datetime]) -> Iterator[tuple[str, str, dict[str, Any], datetime]]:
    town = Town(Random(seed))
    for at in times:
        for name in town.tick():
            yield town.told(name, at)
