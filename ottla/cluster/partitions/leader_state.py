"""A leader's view of its followers: offsets, ISR membership, and producers that wait for replication.

This module shrinks and expands the ISR by the rules in `partitions.isr`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from ottla.cluster.background_tasks import start_task
from ottla.cluster.partitions.isr import (
    LONG_AGO,
    Follower,
    InSync,
    IsrStore,
    committed_offset,
    joining,
    without_laggards,
)
from ottla.cluster.partitions.purgatory import OffsetWatchers, Purgatory
from ottla.metadata.cluster_image import PartitionImage
from ottla.metadata.stores.store import BadVersion, StoreError
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.cluster.partitions.partition import Partition

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0


class LeaderContext:
    """State shared by all leaders of one broker. Owner: the event loop."""

    __slots__ = (
        "can_follow",
        "failed_isr_updates",
        "isr_expands",
        "isr_shrinks",
        "isr_store",
        "max_lag",
        "purgatory",
        "tasks",
    )

    def __init__(self, max_lag: float, can_follow: Callable[[str, int, int], bool]) -> None:
        self.max_lag = max_lag  # seconds
        self.can_follow = can_follow  # by topic, partition and broker: True if broker and replica are online
        self.isr_store: IsrStore | None = None  # without a store the ISR never changes
        self.purgatory = Purgatory()
        self.tasks: set[asyncio.Task[None]] = set()
        # Counts since the broker started.
        self.isr_shrinks = self.isr_expands = self.failed_isr_updates = 0


class LeaderState:
    """The followers of a partition in one leader epoch.

    Invariant: the high watermark never exceeds the log end offset of a replica that may be in the ISR. Owner: the event
    loop.
    """

    __slots__ = (
        "_altering",
        "_context",
        "_is_outdated",
        "_partition",
        "commits",
        "deletions",
        "epoch_start_offset",
        "followers",
        "in_sync",
        "min_isr",
    )

    def __init__(
        self,
        partition: Partition,
        state: PartitionImage,
        context: LeaderContext,
        before: LeaderState | None = None,
    ) -> None:
        """`before` is the state of the previous epoch if this broker led then, too: its requests continue to wait."""
        self._partition = partition
        self._context = context
        self.epoch_start_offset = partition.log.log_end_offset
        self.in_sync = InSync(state.isr, state.partition_epoch)
        self.followers: dict[int, Follower] = {}
        # Keys of the purgatory: the high watermark, and the low watermark of all replicas.
        self.commits: OffsetWatchers = OffsetWatchers() if before is None else before.commits
        self.deletions: OffsetWatchers = OffsetWatchers() if before is None else before.deletions
        self.min_isr = 1
        self._altering = False
        self._is_outdated = False  # the store has a newer state, still on its way to this broker
        self._set_followers(state.replicas)

    def _set_followers(self, replicas: tuple[int, ...]) -> None:
        known, now = self.followers, monotonic()
        self.followers = {
            broker_id: known.get(broker_id) or Follower(now if broker_id in self.in_sync.isr else LONG_AGO)
            for broker_id in replicas
            if broker_id != self._partition.broker_id
        }
        self.configure()

    def configure(self) -> None:
        """Apply a changed topic configuration or number of replicas."""
        asked = self._partition.log.config.min_insync_replicas
        self.min_isr = min(asked, len(self.followers) + 1)

    @property
    def isr(self) -> tuple[int, ...]:
        return self.in_sync.isr

    @property
    def is_below_min_isr(self) -> bool:
        return len(self.in_sync.isr) < self.min_isr

    # Events

    def appended(self, first_offset: int) -> None:
        """Handle an append that started at `first_offset`."""
        now = monotonic()
        for follower in self.followers.values():
            if follower.end_offset == first_offset:
                follower.caught_up_at = now  # it had everything until now
        if len(self.in_sync.maximal) == 1:
            self._advance(now)

    def fetched(self, broker_id: int, offset: int, start_offset: int) -> None:
        """Record a follower's fetch at `offset`: the follower has everything below it."""
        follower = self.followers.get(broker_id)
        if follower is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {broker_id} is no replica")
        now = monotonic()
        before = follower.end_offset
        follower.fetched(offset, start_offset, self._partition.log.log_end_offset, now)
        if offset != before:
            self._advance(now)
        if self.deletions:
            self.deletions.try_complete(self.low_watermark)
        if broker_id not in self.in_sync.maximal:
            self._let_join()

    def learn(self, state: PartitionImage) -> None:
        """Apply the stored state of the same leader epoch."""
        removed = set(self.in_sync.isr) - set(state.isr)
        if self.in_sync.learn(state.isr, state.partition_epoch):
            self._is_outdated = False
            for broker_id in removed & self.followers.keys():
                # The controller removed a dead broker: it has to fetch again before it counts.
                self.followers[broker_id] = Follower(LONG_AGO)
        self._set_followers(state.replicas)
        self._isr_changed()

    def check(self) -> None:
        """Remove lagging followers from the ISR and add those that have caught up; called periodically."""
        if self._altering or self._is_outdated:
            return
        partition, in_sync, now = self._partition, self.in_sync, monotonic()
        end_offset = partition.log.log_end_offset
        isr = in_sync.isr
        if in_sync.asked is not None:
            # The last attempt failed: the followers that were about to join may do so if they still qualify.
            isr += tuple(broker_id for broker_id in self._joining() if broker_id in in_sync.asked)
        isr = without_laggards(isr, self.followers, end_offset, now, self._context.max_lag)
        # While the stored ISR is unknown, write even the old ISR, to make it known.
        if isr != in_sync.isr or in_sync.asked is not None:
            self._alter(isr)
        else:
            self._let_join()
            self._advance(now)

    def close(self, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """Stop leading: waiting requests may never be committed and get an error."""
        self.commits.fail(error)
        self.deletions.fail(error)

    def complete_alone(self) -> None:
        """Commit the whole log and complete all deletions, because no followers remain."""
        self.commits.try_complete(self._partition.high_watermark)
        self.followers = {}
        self.deletions.try_complete(self.low_watermark)

    # Deleted records

    @property
    def low_watermark(self) -> int:
        """Return the smallest log start offset of all online replicas."""
        starts = [
            follower.start_offset
            for broker_id, follower in self.followers.items()
            if self._can_follow(broker_id)
        ]
        return min(starts, default=self._partition.log.log_start_offset)

    # Steps

    def _advance(self, now: float) -> None:
        partition, in_sync = self._partition, self.in_sync
        context = self._context
        offset = committed_offset(
            partition.log.log_end_offset,
            self.followers,
            in_sync.maximal,
            now,
            context.max_lag,
            self._can_follow,
        )
        if offset > partition.high_watermark:
            partition.advance_high_watermark(offset)
            self.commits.try_complete(offset)

    def _let_join(self) -> None:
        if self._altering or self._is_outdated or self.in_sync.asked is not None:
            return
        isr = self.in_sync.isr
        if len(isr) > len(self.followers):
            return
        joined = self._joining()
        if joined:
            self._alter(isr + joined)

    def _joining(self) -> tuple[int, ...]:
        return joining(
            self.in_sync.isr,
            self.followers,
            self._partition.high_watermark,
            self.epoch_start_offset,
            self._can_follow,
        )

    def _can_follow(self, broker_id: int) -> bool:
        return self._context.can_follow(self._partition.topic, self._partition.index, broker_id)

    def _alter(self, isr: tuple[int, ...]) -> None:
        if self._context.isr_store is None:
            return
        self.in_sync.ask(isr)
        self._altering = True
        # The decision depends on the current state: the write must fail if the store has another one by then.
        epochs = self._partition.leader_epoch, self.in_sync.partition_epoch
        start_task(self._context.tasks, self._ask_store(self._context.isr_store, isr, *epochs))

    async def _ask_store(
        self, store: IsrStore, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int
    ) -> None:
        partition, in_sync = self._partition, self.in_sync
        if in_sync.asked is not isr:  # a newer state has arrived and may require another ISR
            self._altering = False
            self._retry()
            return
        before = in_sync.isr
        try:
            partition_epoch = await store.alter(
                partition.topic,
                partition.index,
                isr=isr,
                leader_epoch=leader_epoch,
                partition_epoch=partition_epoch,
            )
        except BadVersion:
            # The state has changed, perhaps by an earlier attempt from here: the new one is on its way.
            self._is_outdated = in_sync.asked is not None
            self._context.failed_isr_updates += 1
            return
        except StoreError as error:
            # The outcome is unknown: both ISRs count until a later attempt succeeds.
            logger.warning(
                "Cannot write the ISR of %s-%d and will try again: %s",
                partition.topic,
                partition.index,
                error,
            )
            self._context.failed_isr_updates += 1
            asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._retry)
            return
        finally:
            self._altering = False
        self._context.isr_shrinks += len(isr) < len(before)
        self._context.isr_expands += len(isr) > len(before)
        if in_sync.learn(isr, partition_epoch):
            logger.info(
                "[Partition %s-%d broker=%d] ISR is [%s], it was [%s]",
                partition.topic,
                partition.index,
                partition.broker_id,
                ",".join(map(str, isr)),
                ",".join(map(str, before)),
            )
            self._isr_changed()

    def _retry(self) -> None:
        if self._partition.leading is self:
            self.check()

    def _isr_changed(self) -> None:
        partition = self._partition
        if partition.leading is not self:
            return
        partition.isr, partition.partition_epoch = self.in_sync.isr, self.in_sync.partition_epoch
        if self.is_below_min_isr:
            # Waiting records will still be committed, but on fewer replicas than min.insync.replicas.
            self.commits.fail(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        self._advance(monotonic())
        self._let_join()
