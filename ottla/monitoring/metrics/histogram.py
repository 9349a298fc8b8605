"""Distribution of values: a count per bucket, four buckets per doubling."""

from __future__ import annotations

# Values above 2^40 share the last bucket: in microseconds that is twelve days.
_BITS = 40
_BUCKETS = (_BITS - 1) * 4


class Histogram:
    """Counts and sums all values; quantiles cover the values since the last two calls of `rotate`.

    A quantile is off by an eighth at most. There is no lock: one thread adds.
    """

    __slots__ = ("_before", "_now", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self._now = [0] * _BUCKETS
        self._before = [0] * _BUCKETS

    def add(self, value: int, weight: int = 1) -> None:
        """`weight`: number of values that this one represents."""
        if value < 4:
            place = value if value > 0 else 0
        else:
            bits = value.bit_length()
            place = ((bits - 2) << 2) | ((value >> (bits - 3)) & 3) if bits <= _BITS else _BUCKETS - 1
        self._now[place] += weight
        self.count += weight
        self.total += value * weight

    def rotate(self) -> None:
        """Drop values from before the last call from the quantiles."""
        self._before, self._now = self._now, [0] * _BUCKETS

    def quantile(self, quantile: float) -> float:
        """Return the value below which this share of all values lies; 0 without values."""
        buckets = [now + before for now, before in zip(self._now, self._before, strict=True)]
        wanted = quantile * sum(buckets)
        seen = 0
        for place, count in enumerate(buckets):
            if count and seen + count >= wanted:
                low, high = _bounds(place)
                return low + (high - low) * max(0.0, wanted - seen) / count if high - low > 1 else float(low)
            seen += count
        return 0.0


def _bounds(place: int) -> tuple[int, int]:
    if place < 4:
        return place, place + 1
    shift = (place >> 2) - 1
    low = (4 | (place & 3)) << shift
    return low, low + (1 << shift)
