"""Produce requests with acks=all, waiting for other replicas to fetch their batches."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.broker.network.pending import PendingResponse
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.produce import ProduceResponse

if TYPE_CHECKING:
    from ottla.broker.network.dispatch import RequestContext
    from ottla.cluster.partition import Partition

# Interval of the deadline check, for all waiting requests.
_CHECK_SECONDS = 0.1


class Answer(Protocol):
    error_code: int


class Uncommitted(NamedTuple):
    """A batch that other replicas have yet to fetch."""

    partition: Partition
    offset: int  # committed when the high watermark reaches this offset
    answer: Answer


class DelayedProduces:
    """Waiting requests with their deadlines. One timer serves them all, as there are thousands of requests a second.

    Owner: the event loop.
    """

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
            self._timer = self._loop.call_later(_CHECK_SECONDS, self._check_deadlines)
        for at, (partition, offset, _) in enumerate(waits):
            if partition.leading is not None:
                partition.leading.commits.add(offset, delayed, at)
            else:  # the disk failed on a later batch of the same request and took this partition offline
                delayed.committed(at, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return delayed

    def forget(self, delayed: DelayedProduce) -> None:
        self._deadlines.pop(delayed, None)

    def _check_deadlines(self) -> None:
        now = self._loop.time()
        late = {each for each, deadline in self._deadlines.items() if deadline <= now}
        for partition in {wait.partition for each in late for wait in each.waits}:
            if partition.leading is not None:
                partition.leading.commits.discard(late)
        for delayed in late:
            del self._deadlines[delayed]
            delayed.time_out()
        self._timer = None
        if self._deadlines:
            self._timer = self._loop.call_later(_CHECK_SECONDS, self._check_deadlines)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class DelayedProduce(PendingResponse):
    """One request, complete once its last batch is committed or has failed."""

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
    """Wait like `DelayedProduce`, for a request handled by a coroutine."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    pending = []
    # Register with all partitions before awaiting: leadership of any may move in the meantime.
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
