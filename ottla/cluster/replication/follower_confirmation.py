"""Confirm this broker's leadership through its followers while ZooKeeper is unavailable."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.cluster.partitions.partition import Partition

# A follower silent for this long may have another leader.
_SILENCE_SECONDS = 2.0
# Every request asks, and computing an answer visits all partitions, so answers are cached briefly.
_VALID_SECONDS = 0.25


class FollowerConfirmation:
    """Derives leadership from follower fetches. A follower that becomes leader stops fetching from this broker.

    While every possible successor still fetches, this broker is still the leader. Owner: the event loop.
    """

    def __init__(
        self,
        broker_id: int,
        partitions: Callable[[], Iterable[Partition]],
        followers: Callable[[float], set[int]],
    ) -> None:
        """`followers` returns the brokers that have fetched since a point in time."""
        self._id = broker_id
        self._partitions = partitions
        self._followers = followers
        self._until = 0.0
        self._check_again_at = 0.0

    def until(self, now: float) -> float:
        """Return the time until which leadership is certain; a time in the past if it is not."""
        if now >= self._check_again_at:
            self._check_again_at = now + _VALID_SECONDS
            if self._possible_successors() <= self._followers(now - _SILENCE_SECONDS):
                self._until = self._check_again_at
        return self._until

    def _possible_successors(self) -> set[int]:
        """Return all brokers that could be elected for a partition led here, including pending ISR changes."""
        successors: set[int] = set()
        for partition in self._partitions():
            if partition.leading is not None:
                successors |= partition.leading.in_sync.maximal
        successors.discard(self._id)
        return successors
