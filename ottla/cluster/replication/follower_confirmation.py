"""Confirm this broker's leadership through its followers while ZooKeeper is unavailable."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.cluster.replicas import Replicas
    from ottla.cluster.replication.leader_fetch_handler import LeaderFetchHandler

# A follower silent for this long may have another leader.
_SILENCE_SECONDS = 2.0
# Every request asks, and computing an answer visits all partitions, so answers are cached briefly.
_VALID_SECONDS = 0.25


class FollowerConfirmation:
    """Derives leadership from follower fetches. A follower that becomes leader stops fetching from this broker.

    While every possible successor still fetches, this broker is still the leader. Owner: the event loop.
    """

    def __init__(self, broker_id: int, replicas: Replicas, fetches: LeaderFetchHandler) -> None:
        self._id = broker_id
        self._replicas = replicas
        self._fetches = fetches
        self._until = 0.0
        self._check_again_at = 0.0

    def until(self, now: float) -> float:
        """Return the time until which leadership is certain; a time in the past if it is not."""
        if now >= self._check_again_at:
            self._check_again_at = now + _VALID_SECONDS
            if self._possible_successors() <= self._fetches.followers(now - _SILENCE_SECONDS):
                self._until = self._check_again_at
        return self._until

    def _possible_successors(self) -> set[int]:
        """Return all brokers that could be elected for a partition led here, including pending ISR changes."""
        successors: set[int] = set()
        for partition in self._replicas.partitions():
            if partition.leading is not None:
                successors |= partition.leading.in_sync.maximal
        successors.discard(self._id)
        return successors
