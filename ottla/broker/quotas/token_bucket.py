"""A token bucket that fills at a steady rate, used for Kafka's mutation quota."""

from __future__ import annotations


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
