"""Throughput, derived from the movement of end offsets.

Querying all partitions of a large cluster at once would put load on it. Each round therefore queries a limited number,
in turn. A partition's rate covers the time since its last query; a topic's rate is the sum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from ottla.client.admin.offsets import Partition

AT_ONCE = 2000
_POINTS = 360


class Rates:
    """Pure: callers pass the time. Owner: the event loop."""

    def __init__(self) -> None:
        self._seen: dict[Partition, tuple[float, int]] = {}
        self._rates: dict[Partition, float] = {}
        self._next = 0
        self.history: deque[tuple[float, float]] = deque(maxlen=_POINTS)

    def next_round(self, partitions: Sequence[Partition]) -> list[Partition]:
        if len(partitions) <= AT_ONCE:
            return list(partitions)
        start = self._next % len(partitions)
        chosen = [*partitions[start : start + AT_ONCE]]
        chosen += partitions[: AT_ONCE - len(chosen)]
        self._next = (start + AT_ONCE) % len(partitions)
        return chosen

    def add(self, now: float, ends: Mapping[Partition, int], existing: Iterable[Partition]) -> None:
        for partition, end in ends.items():
            before = self._seen.get(partition)
            if before is not None and now > before[0]:
                # A recreated topic starts at 0.
                self._rates[partition] = max(end - before[1], 0) / (now - before[0])
            self._seen[partition] = (now, end)
        for gone in self._seen.keys() - set(existing):
            self._seen.pop(gone, None)
            self._rates.pop(gone, None)
        self.history.append((now, self.total))

    @property
    def total(self) -> float:
        return sum(self._rates.values())

    @property
    def is_known(self) -> bool:
        return len(self.history) > 1

    def of_partition(self, topic: str, number: int) -> float | None:
        return self._rates.get((topic, number))

    def of_topic(self, topic: str, partitions: int) -> float | None:
        found = [self._rates[topic, number] for number in range(partitions) if (topic, number) in self._rates]
        return sum(found) if found else None
