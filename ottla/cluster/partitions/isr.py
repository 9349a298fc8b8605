"""Rules for the ISR and the high watermark, independent of clock and store.

`LeaderState` applies them: it shrinks and expands the ISR (`check`, `_alter`) and advances the high watermark.
`PartitionStates.alter` writes the new ISR.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

UNKNOWN_OFFSET = -1
LONG_AGO = float("-inf")


class IsrStore(Protocol):
    """Store that decides a partition's ISR."""

    def alter(
        self, topic: str, index: int, *, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int
    ) -> Awaitable[int]:
        """Write the ISR if the partition epoch is unchanged. Return the new one. Raises BadVersion or StoreError."""
        ...


class Follower:
    """A leader's knowledge about one other replica, gained from its fetches. Times are monotonic.

    A follower that fetches at offset N has everything below N.
    """

    __slots__ = ("_fetched_at", "_leader_end_offset", "caught_up_at", "end_offset", "start_offset")

    def __init__(self, caught_up_at: float) -> None:
        self.end_offset = UNKNOWN_OFFSET
        self.start_offset = UNKNOWN_OFFSET
        self.caught_up_at = caught_up_at  # when it last had the leader's whole log
        self._fetched_at = LONG_AGO
        self._leader_end_offset = 0

    def fetched(self, offset: int, start_offset: int, leader_end_offset: int, now: float) -> None:
        if offset >= leader_end_offset:
            self.caught_up_at = now
        elif offset >= self._leader_end_offset:
            # It has everything from its previous fetch: a follower under load never reaches the very end.
            self.caught_up_at = max(self.caught_up_at, self._fetched_at)
        self.end_offset = offset
        self.start_offset = start_offset
        self._fetched_at = now
        self._leader_end_offset = leader_end_offset

    def is_caught_up(self, leader_end_offset: int, now: float, max_lag: float) -> bool:
        return self.end_offset == leader_end_offset or now - self.caught_up_at <= max_lag


class InSync:
    """The stored ISR, and the ISR that the leader has proposed without an answer so far.

    Invariant: `maximal` contains every broker that may be in the ISR now (KIP-497). A record is committed only if all
    of them have it, so it does not matter when, or whether, the new ISR is written.
    """

    __slots__ = ("asked", "isr", "maximal", "partition_epoch")

    def __init__(self, isr: tuple[int, ...], partition_epoch: int) -> None:
        self.isr = isr
        self.partition_epoch = partition_epoch
        self.asked: tuple[int, ...] | None = None
        self.maximal = frozenset(isr)

    def ask(self, isr: tuple[int, ...]) -> None:
        self.asked = isr
        self.maximal |= frozenset(isr)  # an earlier proposal may have succeeded, too

    def learn(self, isr: tuple[int, ...], partition_epoch: int) -> bool:
        """Apply the stored ISR. Return False if it is older than the known one."""
        if partition_epoch <= self.partition_epoch:
            return False
        self.isr = isr
        self.partition_epoch = partition_epoch
        self.asked = None
        self.maximal = frozenset(isr)
        return True


def committed_offset(
    leader_end_offset: int,
    followers: Mapping[int, Follower],
    maximal: frozenset[int],
    now: float,
    max_lag: float,
    can_follow: Callable[[int], bool],
) -> int:
    """Return the highest offset that every in-sync or joining replica has replicated.

    Followers that have caught up without being in the ISR yet count as well. Otherwise a busy leader alone in the ISR
    would always commit without them, and they could never join.
    """
    end_offset = leader_end_offset
    for broker_id, follower in followers.items():
        if follower.end_offset < end_offset and (
            broker_id in maximal
            or (follower.is_caught_up(leader_end_offset, now, max_lag) and can_follow(broker_id))
        ):
            end_offset = follower.end_offset
    return end_offset


def without_laggards(
    isr: tuple[int, ...],
    followers: Mapping[int, Follower],
    leader_end_offset: int,
    now: float,
    max_lag: float,
) -> tuple[int, ...]:
    """Return the ISR without followers that have lagged for too long."""
    return tuple(
        broker_id
        for broker_id in isr
        if broker_id not in followers or followers[broker_id].is_caught_up(leader_end_offset, now, max_lag)
    )


def joining(
    isr: tuple[int, ...],
    followers: Mapping[int, Follower],
    high_watermark: int,
    epoch_start_offset: int,
    can_follow: Callable[[int], bool],
) -> tuple[int, ...]:
    """Return followers outside the ISR that have all committed records and all records of earlier leader epochs."""
    least = max(high_watermark, epoch_start_offset)
    return tuple(
        broker_id
        for broker_id, follower in followers.items()
        if broker_id not in isr and follower.end_offset >= least and can_follow(broker_id)
    )
