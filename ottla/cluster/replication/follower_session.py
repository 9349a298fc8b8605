"""One follower's fetch session: decides which partitions to answer, and when.

Partitions notify the session of events, so that a fetch visits only partitions with news.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TypeVar

from ottla.cluster.replication.fetched_partition import UNKNOWN, FetchedPartition
from ottla.log.cold_reads import ColdRange, cold_range, read_cold
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from ottla.cluster.replicas import Replicas

Key = tuple[str | bytes, int]


class FollowerConnection(Protocol):
    """A follower's connection; its session ends with the connection."""

    closing: dict[object, Callable[[], None]]


class PendingFetch(Protocol):
    """Response to a waiting fetch, to be completed once."""

    def complete(self, response: FetchResponse) -> None: ...

    def complete_now(self, response: FetchResponse) -> None: ...


PendingT = TypeVar("PendingT", bound=PendingFetch)


class FollowerSession:
    """The partitions fetched by one follower. Owner: the event loop."""

    def __init__(
        self,
        replicas: Replicas,
        session_id: int,
        connection: FollowerConnection,
        replica_id: int,
        by_id: bool,
    ) -> None:
        self._replicas = replicas
        self._id = session_id
        self.replica_id = replica_id
        self.asked_at = monotonic()
        self._by_id = by_id
        self._loop = asyncio.get_running_loop()
        self.connection = connection
        self.epoch = 0
        self._targets: dict[Key, FetchedPartition] = {}
        self.due: dict[FetchedPartition, None] = {}  # partitions that may have news
        self._waiting: PendingFetch | None = None
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_woken = False
        self._is_reading = False  # a thread is reading from disk
        self._held: asyncio.TimerHandle | None = None  # until throttled replicas may get more
        self._max_bytes = self._min_bytes = 0

    def fetch(self, request: FetchRequest, respond_later: Callable[[], PendingT]) -> FetchResponse | PendingT:
        if self._waiting is not None:
            self._finish(self._waiting)  # the follower has a new request and does not want to wait
        self.epoch += 1
        self.asked_at = monotonic()
        for topic in request.topics:
            for asked in topic.partitions:
                self._update(topic, asked)
        for forgotten in request.forgotten_topics_data:
            name: str | bytes = forgotten.topic_id if self._by_id else forgotten.topic
            for index in forgotten.partitions:
                self._forget((name, index))
        self._max_bytes = request.max_bytes
        self._min_bytes = min(request.min_bytes, request.max_bytes)
        cold = self._cold_ranges()
        if not cold:
            answers = self._answers()
            if answers is not None or request.max_wait_ms <= 0:
                return self._respond(answers or [])
        pending = self._waiting = respond_later()
        self._deadline = self._loop.time() + request.max_wait_ms / 1000
        if self._timer is None:
            self._timer = self._loop.call_later(request.max_wait_ms / 1000, self._on_time)
        if cold:
            self._read_from_disk(cold)
        return pending

    @property
    def is_waiting(self) -> bool:
        return self._waiting is not None

    @property
    def follows_something(self) -> bool:
        return bool(self._targets)

    def close(self) -> None:
        for target in self._targets.values():
            target.bind(None)
        self._targets.clear()
        self.due.clear()
        self._waiting = None
        for timer in (self._timer, self._held):
            if timer is not None:
                timer.cancel()
        self._timer = self._held = None

    # Requests

    def _update(self, topic: FetchTopic, asked: FetchPartition) -> None:
        name: str | bytes = topic.topic_id if self._by_id else topic.topic
        key = (name, asked.partition)
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = FetchedPartition(self, name, asked.partition)
        self.due[target] = None
        target.update(asked, self._replicas, self.replica_id)

    def _forget(self, key: Key) -> None:
        target = self._targets.pop(key, None)
        if target is not None:
            target.bind(None)
            self.due.pop(target, None)

    # Responses

    def _cold_ranges(self) -> list[ColdRange]:
        """Return the ranges to read from disk first."""
        found = []
        for target in self.due:
            partition = target.reads
            if partition is not None:
                if self._is_throttled(target) and self._replicas.leader_throttle.left() < 1:
                    continue
                cold = cold_range(partition.log, target.fetch_offset, target.max_bytes)
                if cold is not None:
                    found.append(cold)
        return found

    def _answers(self, *, whatever: bool = False) -> list[tuple[FetchedPartition, PartitionData]] | None:
        """Return the current answers; None if they have fewer than min_bytes, unless `whatever` is set."""
        answers: list[tuple[FetchedPartition, PartitionData]] = []
        said: list[FetchedPartition] = []
        left, size, urgent = self._max_bytes, 0, whatever
        throttle, throttled_size, is_held = self._replicas.leader_throttle, 0, False
        for target in self.due:
            if left <= 0:
                break
            most, is_throttled = left, self._is_throttled(target)
            if is_throttled:
                most = min(left, throttle.share(throttled_size))
                if most <= 0:
                    is_held = True
                    continue
            min_one = size == 0 or is_throttled
            answer = target.answer(self._replicas, most, min_one=min_one)
            if not min_one and target.lacks_room(answer):
                break  # its next batch exceeds the rest of this response, and comes first in the next one
            said.append(target)
            if answer is None:
                continue
            answers.append((target, answer))
            if answer.records:
                size += len(answer.records)
                left -= len(answer.records)
                if is_throttled:
                    throttled_size += len(answer.records)
            elif (
                answer.error_code
                or answer.diverging_epoch is not None
                or answer.log_start_offset > target.sent_log_start_offset > UNKNOWN
            ):
                urgent = True
        if is_held and self._held is None:
            self._held = self._loop.call_later(throttle.wait(), self._on_allowed)
        if size < self._min_bytes and not urgent:
            return None
        if throttled_size:
            throttle.take(throttled_size)
        for target in said:
            del self.due[target]
        return answers

    def _is_throttled(self, target: FetchedPartition) -> bool:
        """Return True if the replication throttle may hold back records of this partition."""
        partition = target.reads
        return (
            partition is not None
            and self._replicas.leader_throttle.covers(partition, self.replica_id)
            and target.fetch_offset < partition.log.log_end_offset
        )

    def _on_allowed(self) -> None:
        self._held = None
        self.wake()

    def _respond(self, answers: list[tuple[FetchedPartition, PartitionData]]) -> FetchResponse:
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for target, answer in answers:
            if answer.error_code or answer.records or answer.diverging_epoch is not None:
                target.is_silent = True
            target.sent_high_watermark = answer.high_watermark
            target.sent_log_start_offset = answer.log_start_offset
            if answer.records and target.bound is not None and target.bound.counts is not None:
                target.bound.counts.replicated_out += len(answer.records)
            topic = topics.get(target.topic)
            if topic is None:
                topic = FetchableTopicResponse()
                if isinstance(target.topic, bytes):
                    topic.topic_id = target.topic
                else:
                    topic.topic = target.topic
                topics[target.topic] = topic
            topic.partitions.append(answer)
        if not self._id:
            self.close()
        return FetchResponse(session_id=self._id, responses=list(topics.values()))

    # Waiting

    def wake(self) -> None:
        # Wake after this turn, so that one fetch returns records of concurrent producers.
        if self._waiting is not None and not self._is_woken and not self._is_reading:
            self._is_woken = True
            self._loop.call_soon(self._on_woken)

    def _on_woken(self) -> None:
        self._is_woken = False
        waiting = self._waiting
        if waiting is None or self._is_reading:
            return
        cold = self._cold_ranges()
        if cold:
            self._read_from_disk(cold)
            return
        answers = self._answers()
        if answers is not None:
            self._waiting = None
            waiting.complete_now(self._respond(answers))

    def _on_time(self) -> None:
        self._timer = None
        waiting = self._waiting
        if waiting is None:
            return
        left = self._deadline - self._loop.time()
        if left > 0.001:
            self._timer = self._loop.call_later(left, self._on_time)
        else:
            self._finish(waiting)

    def _finish(self, waiting: PendingFetch) -> None:
        """Respond with the available answers, possibly none."""
        self._waiting = None
        waiting.complete(self._respond([] if self._is_reading else self._answers(whatever=True) or []))

    def _read_from_disk(self, cold: list[ColdRange]) -> None:
        self._is_reading = True
        reading = self._loop.run_in_executor(None, read_cold, cold)
        reading.add_done_callback(self._on_read)

    def _on_read(self, _: object) -> None:
        self._is_reading = False
        waiting = self._waiting
        if waiting is not None:
            answers = self._answers()
            if answers is not None:
                self._waiting = None
                waiting.complete(self._respond(answers))
