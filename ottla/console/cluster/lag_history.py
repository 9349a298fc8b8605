"""History of group lag, in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from ottla.client.admin.groups import GroupListing
from ottla.client.admin.offsets import Partition
from ottla.console.cluster.source import Position

#: Groups measured per round; recently viewed ones come first.
AT_ONCE = 200
_POINTS = 480
_MOST_PARTITIONS = 64


class LagHistory:
    """Pure: callers pass the time. Owner: the event loop."""

    def __init__(self) -> None:
        self._totals: dict[str, deque[tuple[float, int]]] = {}
        self._partitions: dict[str, dict[Partition, deque[tuple[float, int]]]] = {}
        self._wanted: dict[str, None] = {}  # in the order of last views
        self._next = 0
        self.measured_at = 0.0

    def want(self, group: str) -> None:
        self._wanted.pop(group, None)
        self._wanted[group] = None
        while len(self._wanted) > AT_ONCE // 2:
            del self._wanted[next(iter(self._wanted))]

    def next_round(self, groups: Mapping[str, GroupListing]) -> list[GroupListing]:
        """Return the viewed groups, plus as many of the others as fit, in turn."""
        chosen = {name: groups[name] for name in self._wanted if name in groups}
        others: Sequence[str] = [name for name in groups if name not in chosen]
        room = AT_ONCE - len(chosen)
        if len(others) > room:
            start = self._next % len(others)
            self._next = start + room
            others = [*others[start : start + room], *others[: max(0, start + room - len(others))]]
        return [*chosen.values(), *(groups[name] for name in others)]

    def add(self, now: float, positions: Mapping[str, Mapping[Partition, Position]]) -> None:
        self.measured_at = now
        for group, of_group in positions.items():
            lags = {partition: each.lag for partition, each in of_group.items() if each.lag is not None}
            self._totals.setdefault(group, deque(maxlen=_POINTS)).append((now, sum(lags.values())))
            if len(lags) <= _MOST_PARTITIONS:
                of_partitions = self._partitions.setdefault(group, {})
                for partition, lag in lags.items():
                    of_partitions.setdefault(partition, deque(maxlen=_POINTS)).append((now, lag))

    def keep_only(self, groups: Iterable[str]) -> None:
        for gone in self._totals.keys() - set(groups):
            self._totals.pop(gone, None)
            self._partitions.pop(gone, None)

    def groups(self) -> list[str]:
        return sorted(self._totals)

    def last(self, group: str) -> int:
        points = self._totals.get(group)
        return points[-1][1] if points else 0

    def total(self, group: str) -> list[tuple[float, int]]:
        return list(self._totals.get(group, ()))

    def partitions(self, group: str) -> dict[Partition, list[tuple[float, int]]]:
        return {partition: list(points) for partition, points in self._partitions.get(group, {}).items()}
