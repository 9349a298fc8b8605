"""Whether the followers of this broker vouch for its leaderships, while ZooKeeper cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.cluster.replicas import Replicas
    from ottla.cluster.replication.leader_fetch_handler import ReplicaFetches

# A follower that has not fetched for so long may have another leader.
_SILENCE_SECONDS = 2.0
# All partitions are gone through for an answer, and every request wants one: it holds for a little while.
_HOLDS_SECONDS = 0.25


class Backing:
    """Whoever is elected stops following: as long as all follow who could be, nobody was. Owner: the event loop."""

    def __init__(self, broker_id: int, replicas: Replicas, fetches: ReplicaFetches) -> None:
        self._id = broker_id
        self._replicas = replicas
        self._fetches = fetches
        self._until = 0.0
        self._ask_again_at = 0.0

    def until(self, now: float) -> float:
        """Until when this broker leads for certain; in the past if that is not certain."""
        if now >= self._ask_again_at:
            self._ask_again_at = now + _HOLDS_SECONDS
            if self._rivals() <= self._fetches.followers(now - _SILENCE_SECONDS):
                self._until = self._ask_again_at
        return self._until

    def _rivals(self) -> set[int]:
        """All who could be elected where this broker leads, if what it has asked of the store was granted too."""
        rivals: set[int] = set()
        for partition in self._replicas.partitions():
            if partition.leading is not None:
                rivals |= partition.leading.in_sync.maximal
        rivals.discard(self._id)
        return rivals
