"""Whether followers confirm that this broker still leads, while ZooKeeper cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.cluster.replicas import Replicas
    from ottla.cluster.replication.leader_fetch_handler import LeaderFetchHandler

# A follower that has not fetched for so long may have another leader.
_SILENCE_SECONDS = 2.0
# Every request asks, and an answer goes through all partitions: so it stays valid for a little while.
_VALID_SECONDS = 0.25


class FollowerConfirmation:
    """A follower that becomes leader stops fetching from us.

    So while every possible successor still fetches, we are still the leader. Owner: the event loop.
    """

    def __init__(self, broker_id: int, replicas: Replicas, fetches: LeaderFetchHandler) -> None:
        self._id = broker_id
        self._replicas = replicas
        self._fetches = fetches
        self._until = 0.0
        self._check_again_at = 0.0

    def until(self, now: float) -> float:
        """Until when this broker is certain to lead; a time in the past if it is not certain."""
        if now >= self._check_again_at:
            self._check_again_at = now + _VALID_SECONDS
            if self._possible_successors() <= self._fetches.followers(now - _SILENCE_SECONDS):
                self._until = self._check_again_at
        return self._until

    def _possible_successors(self) -> set[int]:
        """All brokers that could be elected for a partition led here, ISR changes that are under way included."""
        successors: set[int] = set()
        for partition in self._replicas.partitions():
            if partition.leading is not None:
                successors |= partition.leading.in_sync.maximal
        successors.discard(self._id)
        return successors
