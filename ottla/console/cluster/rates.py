"""Throughput, from how far the ends of partitions have moved.

Asking for all partitions of a large cluster at once would be felt there. So each round asks about so many, in turn; the
rate of a partition is that since it was last asked about, and the rate of a topic is the sum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from ottla.client.admin.offsets import Partition

AT_ONCE = 2000
_POINTS = 360


class Rates:
    """Pure: times come from outside. Owner: the event loop."""

    def __init__(self) -> None:
        self._seen: dict[Partition, tuple[float, int]] = {}
        self._rates: dict[Partition, float] = {}
        self._next = 0
        self.history: deque[tuple[float, float]] = deque(maxlen=_POINTS)

    def next_round(self, partitions: Sequence[Partition]) -> list[Partition]:
        """Whom to ask now."""
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
                # A topic that was deleted and made again begins at 0.
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

    def of_topic(self, topic: str, partitions: int) -> float | None:
        found = [self._rates[topic, number] for number in range(partitions) if (topic, number) in self._rates]
        return sum(found) if found else None
