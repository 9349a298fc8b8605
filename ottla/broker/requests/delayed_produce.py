"""Produce requests with acks=all that are written here and wait for the other replicas."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.network.pending import PendingResponse
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.produce import PartitionProduceResponse, ProduceResponse

if TYPE_CHECKING:
    from ottla.broker.network.dispatch import RequestContext
    from ottla.cluster.partition import Partition

# How often the clock is looked at, for all requests that wait.
_LOOK_EVERY = 0.1


class Uncommitted(NamedTuple):
    """A batch that other replicas have yet to fetch."""

    partition: Partition
    offset: int  # committed when the high watermark is here
    answer: PartitionProduceResponse


class DelayedProduces:
    """Those that wait, and until when. No timer for each: there are thousands per second. Owner: the event loop."""

    def __init__(self) -> None:
        self._deadlines: dict[DelayedProduce, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._deadlines)

    def wait(
        self, context: RequestContext, answer: ProduceResponse, waits: list[Uncommitted], timeout_ms: int
    ) -> DelayedProduce:
        delayed = DelayedProduce(context, self, answer, waits)
        self._deadlines[delayed] = self._loop.time() + timeout_ms / 1000
        if self._timer is None:
            self._timer = self._loop.call_later(_LOOK_EVERY, self._look)
        for at, (partition, offset, _) in enumerate(waits):
            if partition.leading is not None:
                partition.leading.commits.add(offset, delayed, at)
            else:  # a disk has failed under a later batch of the same request, and took this partition along
                delayed.committed(at, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return delayed

    def forget(self, delayed: DelayedProduce) -> None:
        self._deadlines.pop(delayed, None)

    def _look(self) -> None:
        now = self._loop.time()
        late = {each for each, deadline in self._deadlines.items() if deadline <= now}
        for partition in {wait.partition for each in late for wait in each.waits}:
            if partition.leading is not None:
                partition.leading.commits.discard(late)
        for delayed in late:
            del self._deadlines[delayed]
            delayed.time_out()
        self._timer = self._loop.call_later(_LOOK_EVERY, self._look) if self._deadlines else None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class DelayedProduce(PendingResponse):
    """One request; it is complete when the last of its batches is committed or has failed."""

    __slots__ = ("_all", "_answer", "_left", "waits")

    def __init__(
        self,
        context: RequestContext,
        others: DelayedProduces,
        answer: ProduceResponse,
        waits: list[Uncommitted],
    ) -> None:
        super().__init__(context)
        self._all = others
        self._answer = answer
        self.waits = waits
        self._left = len(waits)

    def committed(self, at: int, error: ErrorCode) -> None:
        if error:
            self.waits[at].answer.error_code = error
        self._left -= 1
        if not self._left:
            self._all.forget(self)
            self.complete(self._answer)

    def time_out(self) -> None:
        for partition, offset, answer in self.waits:
            if not answer.error_code and partition.high_watermark < offset:
                answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        self.complete(self._answer)

    def abandon(self) -> None:
        super().abandon()
        self._all.forget(self)


async def wait_committed(waits: list[Uncommitted], timeout_ms: int) -> None:
    """The same for a request whose connection waits anyway."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    pending = []
    # All are asked before any is awaited: a partition that is led elsewhere by then could not tell any more.
    for partition, offset, answer in waits:
        try:
            future = partition.wait_committed(offset)
        except KafkaError as error:
            answer.error_code = error.code
        else:
            if future is not None:
                pending.append((future, answer))
    for future, answer in pending:
        try:
            async with asyncio.timeout_at(deadline):
                await future
        except TimeoutError:
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        except KafkaError as error:
            answer.error_code = error.code
