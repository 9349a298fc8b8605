"""Lag in seconds, as kafka-lag-exporter estimates it: when had the partition the offset that a group has now?

A line through earlier ends of the partition gives the time. Before the first known end the line is extended.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping

from ottla.client.admin.offsets import Partition

_POINTS = 60


class EndHistory:
    """Ends of partitions over time. Pure: callers pass the time."""

    def __init__(self) -> None:
        self._points: dict[Partition, deque[tuple[float, int]]] = {}

    def add(self, now: float, ends: Mapping[Partition, int]) -> None:
        """Keep one point per end: while nothing is written, the last one moves along."""
        for partition, end in ends.items():
            points = self._points.setdefault(partition, deque(maxlen=_POINTS))
            if points and end < points[-1][1]:
                points.clear()  # a new topic with the same name
            if len(points) > 1 and points[-1][1] == points[-2][1] == end:
                points[-1] = (now, end)
            else:
                points.append((now, end))
        for gone in self._points.keys() - ends.keys():
            del self._points[gone]

    def seconds(self, now: float, partition: Partition, offset: int) -> float | None:
        """Return the lag of an offset in seconds, or None while there is too little history."""
        points = self._points.get(partition)
        if not points:
            return None
        if offset >= points[-1][1]:
            return 0.0
        ends = [end for _, end in points]
        place = bisect_left(ends, offset)
        if place == 0 and ends[0] == offset:
            return now - points[0][0]
        first, second = (points[0], points[-1]) if place == 0 else (points[place - 1], points[place])
        if second[1] == first[1]:
            return None
        rate = (second[0] - first[0]) / (second[1] - first[1])
        return max(now - (first[0] + (offset - first[1]) * rate), 0.0)
