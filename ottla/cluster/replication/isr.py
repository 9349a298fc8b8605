"""Which followers are in sync, and how far that commits the log: rules without a clock and without a store.

`LeaderState` applies them: it shrinks and expands the ISR (`check`, `_alter`) and advances the high watermark. The new
ISR is written by `PartitionStates.alter`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

UNKNOWN_OFFSET = -1
LONG_AGO = float("-inf")


class IsrStore(Protocol):
    """Where the ISR of a partition is agreed on."""

    def alter(
        self, topic: str, index: int, *, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int
    ) -> Awaitable[int]:
        """Write the ISR if the state still has that partition epoch; the new one. BadVersion or StoreError if not."""
        ...


class Follower:
    """What a leader knows of one other replica, from its fetches. Times are those of a monotonic clock.

    A follower that fetches from offset N has everything below N.
    """

    __slots__ = ("_fetched_at", "_leader_end_offset", "caught_up_at", "end_offset", "start_offset")

    def __init__(self, caught_up_at: float) -> None:
        self.end_offset = UNKNOWN_OFFSET
        self.start_offset = UNKNOWN_OFFSET
        self.caught_up_at = caught_up_at  # when it last had all that the leader had
        self._fetched_at = LONG_AGO
        self._leader_end_offset = 0

    def fetched(self, offset: int, start_offset: int, leader_end_offset: int, now: float) -> None:
        if offset >= leader_end_offset:
            self.caught_up_at = now
        elif offset >= self._leader_end_offset:
            # It has what there was when it fetched before: a follower under load is never at the very end.
            self.caught_up_at = max(self.caught_up_at, self._fetched_at)
        self.end_offset = offset
        self.start_offset = start_offset
        self._fetched_at = now
        self._leader_end_offset = leader_end_offset

    def is_caught_up(self, leader_end_offset: int, now: float, max_lag: float) -> bool:
        return self.end_offset == leader_end_offset or now - self.caught_up_at <= max_lag


class InSync:
    """The ISR that is in the store, and the one that the leader has asked for and not heard of yet.

    Invariant: `maximal` has all brokers that may be in the ISR now (KIP-497). Only what all of them have is committed:
    it does not matter when, or whether, the new ISR is written.
    """

    __slots__ = ("asked", "isr", "maximal", "partition_epoch")

    def __init__(self, isr: tuple[int, ...], partition_epoch: int) -> None:
        self.isr = isr
        self.partition_epoch = partition_epoch
        self.asked: tuple[int, ...] | None = None
        self.maximal = frozenset(isr)

    def ask(self, isr: tuple[int, ...]) -> None:
        self.asked = isr
        self.maximal |= frozenset(isr)  # what was asked before may have been granted too

    def learn(self, isr: tuple[int, ...], partition_epoch: int) -> bool:
        """Take over the ISR that is in the store; False if it is older than the one that is known."""
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
    """The offset up to which all replicas have the log that are in sync, or are about to be.

    Followers that have caught up and are not in the ISR yet count as well: otherwise a busy leader that is alone in its
    ISR would commit without them for ever, and they could never join.
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
    """The ISR without followers that have lagged for too long."""
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
    """Followers outside the ISR that have all that is committed, and all from before this leader epoch."""
    least = max(high_watermark, epoch_start_offset)
    return tuple(
        broker_id
        for broker_id, follower in followers.items()
        if broker_id not in isr and follower.end_offset >= least and can_follow(broker_id)
    )
