"""Rates over Kafka's sliding windows (quota.window.num, quota.window.size.seconds), and token buckets."""

from __future__ import annotations

from collections import deque


class Rate:
    """A rate per second over at most `windows` windows, including the current one.

    Invariant: windows are in chronological order, and none is older than the total span. Missing windows count as
    empty, so that an initial burst does not look like a high rate. Owner: the event loop; the caller supplies the
    clock.
    """

    __slots__ = ("_length", "_samples", "_windows")

    def __init__(self, windows: int, seconds: float) -> None:
        self._windows = windows
        self._length = seconds
        self._samples: deque[list[float]] = deque()  # start of the window, amount counted in it

    def record(self, amount: float, now: float) -> None:
        samples = self._samples
        if not samples or now - samples[-1][0] >= self._length:
            samples.append([now, 0.0])
            if len(samples) > self._windows:
                samples.popleft()
        samples[-1][1] += amount

    def measure(self, now: float) -> float:
        return self._total(now) / self._elapsed(now)

    def _total(self, now: float) -> float:
        samples, oldest = self._samples, now - self._windows * self._length
        while samples and samples[0][0] <= oldest:
            samples.popleft()
        return sum(amount for _, amount in samples)

    def _elapsed(self, now: float) -> float:
        """Return the span of the measured windows in seconds, including missing ones."""
        elapsed = now - self._samples[0][0] if self._samples else 0.0
        missing = self._windows - 1 - int(elapsed / self._length)
        if missing > 0:
            elapsed += missing * self._length
        return max(elapsed, 0.001)

    def excess(self, limit: float, now: float) -> float:
        """Return the seconds without activity until the rate is back at `limit`."""
        rate = self.measure(now)
        if rate <= limit:
            return 0.0
        return (rate - limit) / limit * self._elapsed(now) if limit > 0 else self._windows * self._length

    def is_idle(self, now: float) -> bool:
        return not self._samples or now - self._samples[-1][0] > self._windows * self._length


class TokenBucket:
    """Tokens arrive at the rate of the limit, up to the amount for `windows` windows of `seconds` each.

    A client with any tokens left may overspend and then waits until the debt is paid. No request is therefore rejected
    for its size. A new bucket is full. Owner: the event loop; the caller supplies the clock.
    """

    __slots__ = ("_at", "_span", "_tokens")

    def __init__(self, windows: int, seconds: float) -> None:
        self._span = windows * seconds
        self._tokens: float | None = None
        self._at = 0.0

    def left(self, limit: float, now: float) -> float:
        """Return the remaining tokens; a negative number is debt."""
        most = limit * self._span
        tokens = most if self._tokens is None else min(most, self._tokens + (now - self._at) * limit)
        self._tokens, self._at = tokens, now
        return tokens

    def spend(self, amount: float, limit: float, now: float) -> None:
        self._tokens = self.left(limit, now) - amount

    def wait(self, limit: float, now: float) -> float:
        debt = -self.left(limit, now)
        if debt <= 0:
            return 0.0
        return debt / limit if limit > 0 else self._span

    def is_idle(self, now: float) -> bool:
        """Return True if the bucket is full again, or nearly so."""
        return now - self._at > self._span and (self._tokens is None or self._tokens >= 0)
