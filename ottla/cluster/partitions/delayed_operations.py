"""Operations that wait for other replicas: produce with acks=all, and the deletion of records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from ottla.cluster.partitions.partition import Partition
from ottla.cluster.partitions.purgatory import DelayedOperation, OffsetWatchers
from ottla.protocol.errors import ErrorCode, KafkaError


class Answer(Protocol):
    error_code: int


class Awaited(NamedTuple):
    """An offset that the other replicas of a partition have yet to reach."""

    partition: Partition
    offset: int
    answer: Answer


class _DelayedByReplicas(DelayedOperation):
    """Complete once each partition has reached its offset or has failed."""

    __slots__ = ("_awaited", "_left", "_on_complete")

    def __init__(self, awaited: Sequence[Awaited], on_complete: Callable[[], object]) -> None:
        super().__init__(awaited[0].partition.purgatory)
        self._awaited = awaited
        self._left = len(awaited)
        self._on_complete = on_complete

    def watch(self, timeout_ms: int) -> None:
        """Watch all partitions. Partitions that this broker no longer leads fail at once."""
        purgatory = self._purgatory
        purgatory.add(self, purgatory.loop.time() + timeout_ms / 1000)
        for at, (partition, offset, _) in enumerate(self._awaited):
            if not partition.is_leader:
                self.fail(at, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif partition.leading is None or self._reached(partition) >= offset:
                self.try_complete(at, offset)
            else:
                self._watchers(partition).add(offset, self, at)

    def try_complete(self, key: int, progress: int) -> None:
        self._left -= 1
        if not self._left and not self.is_complete:
            self.complete()

    def fail(self, key: int, error: ErrorCode) -> None:
        if not self.is_complete:
            self._awaited[key].answer.error_code = error
            self.try_complete(key, 0)

    def complete(self) -> None:
        super().complete()
        self._on_complete()

    def expire(self) -> None:
        for partition, offset, answer in self._awaited:
            if not answer.error_code and self._reached(partition) < offset:
                answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        self.complete()

    def cancel(self) -> None:
        super().cancel()
        if self._left:
            for partition, _, _ in self._awaited:
                if partition.leading is not None:
                    self._watchers(partition).abandon()

    def _reached(self, partition: Partition) -> int:
        raise NotImplementedError

    def _watchers(self, partition: Partition) -> OffsetWatchers:
        raise NotImplementedError


class DelayedProduce(_DelayedByReplicas):
    """Batches that the in-sync replicas have yet to fetch."""

    __slots__ = ()
    kind = "Produce"

    def _reached(self, partition: Partition) -> int:
        return partition.high_watermark

    def _watchers(self, partition: Partition) -> OffsetWatchers:
        assert partition.leading is not None
        return partition.leading.commits


class DelayedDeleteRecords(_DelayedByReplicas):
    """Records that the online replicas have yet to delete."""

    __slots__ = ()
    kind = "DeleteRecords"

    def _reached(self, partition: Partition) -> int:
        leading = partition.leading
        return partition.log.log_start_offset if leading is None else leading.low_watermark

    def _watchers(self, partition: Partition) -> OffsetWatchers:
        assert partition.leading is not None
        return partition.leading.deletions


async def wait_for(operation: type[_DelayedByReplicas], awaited: Sequence[Awaited], timeout_ms: int) -> None:
    """Wait in a coroutine until the operation is complete. The answers hold its errors."""
    if awaited:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def complete() -> None:
            if not future.done():
                future.set_result(None)

        delayed = operation(awaited, complete)
        delayed.watch(timeout_ms)
        try:
            await future
        finally:
            if not delayed.is_complete:
                delayed.cancel()


class _Outcome:
    __slots__ = ("error_code",)

    def __init__(self) -> None:
        self.error_code = 0


def when_committed(partition: Partition, offset: int, timeout_ms: int) -> asyncio.Future[None] | None:
    """Return a future that ends once all records below `offset` are committed, or None if they already are.

    The future fails with a KafkaError. Only the leader knows: a follower may have other records at these offsets by
    now.
    """
    if not partition.is_leader:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if partition.leading is None or partition.high_watermark >= offset:
        return None
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    outcome = _Outcome()

    def complete() -> None:
        if future.done():
            return
        if outcome.error_code:
            future.set_exception(KafkaError(ErrorCode(outcome.error_code)))
            future.exception()  # retrieve it, in case nothing awaits the future
        else:
            future.set_result(None)

    DelayedProduce([Awaited(partition, offset, outcome)], complete).watch(timeout_ms)
    return future
