"""The leader's side of replication: fetches of followers, which see the log to its very end.

A follower has one session on one connection (see `ottla.cluster.replica_fetcher` for the rule that both sides keep).
Partitions tell the session when something has happened to them, so that a fetch looks at those only.
"""

from __future__ import annotations

import asyncio
import random
from time import monotonic
from typing import TYPE_CHECKING

from ottla.broker.connection import Connection
from ottla.broker.delayed import Delayed
from ottla.broker.fetch_sessions import INITIAL, SESSIONLESS
from ottla.log.cold_reads import ColdRange, cold_range
from ottla.log.errors import CorruptSegmentError, StorageError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from ottla.broker.dispatch import RequestContext
    from ottla.cluster.partition import Partition
    from ottla.cluster.replicas import Replicas

_TOPIC_IDS = 13
_UNKNOWN = -1

Key = tuple[str | bytes, int]


class ReplicaFetches:
    """The sessions of followers with this broker. Owner: the event loop."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._sessions: dict[int, ReplicaSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def followers(self, since: float) -> set[int]:
        """Brokers that follow something here, and have asked for it since then (of the monotonic clock)."""
        return {
            session.replica_id
            for session in self._sessions.values()
            if session.asked_at >= since and session.follows_something
        }

    def handle(
        self, request: FetchRequest, context: RequestContext, replica_id: int
    ) -> FetchResponse | Delayed:
        context.cost = None  # quotas are for clients
        by_id = context.version >= _TOPIC_IDS
        try:
            session = self._session(request, context.connection, replica_id, by_id)
        except KafkaError as error:
            return FetchResponse(error_code=error.code)
        return session.fetch(request)

    def _session(
        self, request: FetchRequest, connection: Connection, replica_id: int, by_id: bool
    ) -> ReplicaSession:
        if request.session_epoch == SESSIONLESS:
            return ReplicaSession(self._replicas, 0, connection, replica_id, by_id)
        if request.session_epoch == INITIAL:
            self._close(request.session_id)
            while (session_id := random.randint(1, 2**31 - 1)) in self._sessions:
                pass
            session = ReplicaSession(self._replicas, session_id, connection, replica_id, by_id)
            self._sessions[session_id] = session
            connection.closing[session] = lambda: self._close(session_id)
            return session
        found = self._sessions.get(request.session_id)
        if found is None or found.connection is not connection:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if found.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        return found

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.connection.closing.pop(session, None)
            session.close()


class ReplicaTarget:
    """A partition as one follower sees it. Watches the partition that it is bound to."""

    __slots__ = (
        "bound",
        "current_leader_epoch",
        "diverging",
        "error",
        "fetch_offset",
        "index",
        "is_silent",
        "max_bytes",
        "sent_high_watermark",
        "sent_log_start_offset",
        "session",
        "topic",
    )

    def __init__(self, session: ReplicaSession, topic: str | bytes, index: int) -> None:
        self.session = session
        self.topic = topic
        self.index = index
        self.bound: Partition | None = None
        self.fetch_offset = 0
        self.current_leader_epoch = -1
        self.max_bytes = 0
        self.error = ErrorCode.NONE
        self.diverging: EpochEndOffset | None = None
        self.is_silent = False  # until the follower names it again
        self.sent_high_watermark = _UNKNOWN
        self.sent_log_start_offset = _UNKNOWN

    def bind(self, partition: Partition | None) -> None:
        if self.bound is not partition:
            if self.bound is not None:
                self.bound.watchers.discard(self)
            if partition is not None:
                partition.watchers.add(self)
            self.bound = partition

    def appended(self) -> None:
        if not self.is_silent:
            self.session.due[self] = None
            self.session.wake()

    def committed(self) -> None:
        if not self.is_silent:
            self.session.due[self] = None

    def changed(self) -> None:
        self.appended()


class ReplicaSession:
    """What one follower fetches. Owner: the event loop."""

    def __init__(
        self, replicas: Replicas, session_id: int, connection: Connection, replica_id: int, by_id: bool
    ) -> None:
        self._replicas = replicas
        self._id = session_id
        self.replica_id = replica_id
        self.asked_at = monotonic()
        self._by_id = by_id
        self._loop = asyncio.get_running_loop()
        self.connection = connection
        self.epoch = 0
        self._targets: dict[Key, ReplicaTarget] = {}
        self.due: dict[ReplicaTarget, None] = {}  # something may be said of these
        self._waiting: Delayed | None = None
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_woken = False
        self._is_reading = False  # a thread waits for the disk
        self._held: asyncio.TimerHandle | None = None  # until more may be sent to replicas that are throttled
        self._max_bytes = self._min_bytes = 0

    def fetch(self, request: FetchRequest) -> FetchResponse | Delayed:
        if self._waiting is not None:
            self._finish(self._waiting)  # the follower has news: it wants to be heard, and not to wait
        self.epoch += 1
        self.asked_at = monotonic()
        for topic in request.topics:
            for asked in topic.partitions:
                self._name(topic, asked)
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
        delayed = self._waiting = Delayed(self.connection)
        self._deadline = self._loop.time() + request.max_wait_ms / 1000
        if self._timer is None:
            self._timer = self._loop.call_later(request.max_wait_ms / 1000, self._on_time)
        if cold:
            self._read_from_disk(cold)
        return delayed

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

    # What the follower says

    def _name(self, topic: FetchTopic, asked: FetchPartition) -> None:
        """The follower has everything below the offset that it asks for now."""
        name: str | bytes = topic.topic_id if self._by_id else topic.topic
        key = (name, asked.partition)
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = ReplicaTarget(self, name, asked.partition)
        target.is_silent = False
        target.error, target.diverging = ErrorCode.NONE, None
        target.fetch_offset = asked.fetch_offset
        target.current_leader_epoch = asked.current_leader_epoch
        target.max_bytes = asked.partition_max_bytes
        # An answer that crossed this request on its way was not for the follower any more: it may have heard nothing.
        target.sent_high_watermark = _UNKNOWN
        target.sent_log_start_offset = asked.log_start_offset
        self.due[target] = None
        try:
            partition = self._partition(target)
            if self._diverges(target, partition, asked.last_fetched_epoch):
                return
            if partition.leading is None:
                # A replica that is new, and was quicker to hear of it: it is to ask again when it can be counted.
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            partition.leading.fetched(self.replica_id, asked.fetch_offset, asked.log_start_offset)
        except KafkaError as error:
            target.error = error.code

    def _forget(self, key: Key) -> None:
        target = self._targets.pop(key, None)
        if target is not None:
            target.bind(None)
            self.due.pop(target, None)

    def _partition(self, target: ReplicaTarget) -> Partition:
        try:
            if isinstance(target.topic, bytes):
                partition = self._replicas.leader_by_id(target.topic, target.index)
            else:
                partition = self._replicas.leader(target.topic, target.index)
        except KafkaError:
            target.bind(None)
            raise
        target.bind(partition)
        partition.check_epoch(target.current_leader_epoch)
        return partition

    @staticmethod
    def _diverges(target: ReplicaTarget, partition: Partition, last_fetched_epoch: int) -> bool:
        log, offset = partition.log, target.fetch_offset
        if last_fetched_epoch >= 0:
            epoch, end_offset = log.epoch_end_offset(last_fetched_epoch)
            if epoch < 0 or end_offset < 0 or offset < log.log_start_offset:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < last_fetched_epoch or end_offset < offset:
                target.diverging = EpochEndOffset(epoch=epoch, end_offset=end_offset)
                return True
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return False

    # What it is told

    def _cold_ranges(self) -> list[ColdRange]:
        """What would have to wait for the disk."""
        found = []
        for target in self.due:
            if target.bound is not None and not target.error and target.diverging is None:
                if self._is_throttled(target) and self._replicas.leader_throttle.left() < 1:
                    continue
                cold = cold_range(target.bound.log, target.fetch_offset, target.max_bytes)
                if cold is not None:
                    found.append(cold)
        return found

    def _answers(self, *, whatever: bool = False) -> list[tuple[ReplicaTarget, PartitionData]] | None:
        """What there is to say now; None if that is less than was asked for, unless `whatever` will do."""
        answers: list[tuple[ReplicaTarget, PartitionData]] = []
        said: list[ReplicaTarget] = []
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
            answer = self._answer(target, most, min_one=min_one)
            if not min_one and _lacks_room(target, answer):
                break  # its next batch is larger than what is left of the response: it comes first in the next
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
                or answer.log_start_offset > target.sent_log_start_offset > _UNKNOWN
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

    def _is_throttled(self, target: ReplicaTarget) -> bool:
        """Whether it is a replica to be held back, for which there are records."""
        partition = target.bound
        return (
            partition is not None
            and not target.error
            and target.diverging is None
            and self._replicas.leader_throttle.covers(partition, self.replica_id)
            and target.fetch_offset < partition.log.log_end_offset
        )

    def _on_allowed(self) -> None:
        self._held = None
        self.wake()

    def _answer(self, target: ReplicaTarget, left: int, *, min_one: bool) -> PartitionData | None:
        error = target.error
        try:
            if error:
                raise KafkaError(error)
            partition = self._partition(target)
            log = partition.log
            answer = PartitionData(
                partition_index=target.index,
                high_watermark=partition.high_watermark,
                last_stable_offset=partition.high_watermark,
                log_start_offset=log.log_start_offset,
                aborted_transactions=None,
                records=b"",
            )
            if target.diverging is not None:
                answer.diverging_epoch = target.diverging
                return answer
            try:
                region = log.read(
                    target.fetch_offset,
                    min(target.max_bytes, left),
                    upto=log.log_end_offset,
                    min_one=min_one,
                )
            except (StorageError, CorruptSegmentError) as failure:
                partition.storage_failed(failure)
                raise
        except KafkaError as failure:
            return PartitionData(
                partition_index=target.index,
                error_code=failure.code,
                high_watermark=-1,
                aborted_transactions=None,
                records=b"",
            )
        if region.size:
            answer.records = region
        elif (
            answer.high_watermark == target.sent_high_watermark
            and answer.log_start_offset == target.sent_log_start_offset
        ):
            return None
        return answer

    def _respond(self, answers: list[tuple[ReplicaTarget, PartitionData]]) -> FetchResponse:
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for target, answer in answers:
            if answer.error_code or answer.records or answer.diverging_epoch is not None:
                target.is_silent = True
            target.sent_high_watermark = answer.high_watermark
            target.sent_log_start_offset = answer.log_start_offset
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
        # After this turn: producers that wrote together are fetched together.
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

    def _finish(self, waiting: Delayed) -> None:
        """Say what there is, be it nothing."""
        self._waiting = None
        waiting.complete(self._respond([] if self._is_reading else self._answers(whatever=True) or []))

    def _read_from_disk(self, cold: list[ColdRange]) -> None:
        self._is_reading = True
        reading = self._loop.run_in_executor(None, _read_all, cold)
        reading.add_done_callback(self._on_read)

    def _on_read(self, _: object) -> None:
        self._is_reading = False
        waiting = self._waiting
        if waiting is not None:
            answers = self._answers()
            if answers is not None:
                self._waiting = None
                waiting.complete(self._respond(answers))


def _lacks_room(target: ReplicaTarget, answer: PartitionData | None) -> bool:
    """Whether there are records, and none of them are in the answer."""
    if answer is not None and (answer.records or answer.error_code or answer.diverging_epoch is not None):
        return False
    return target.bound is not None and target.fetch_offset < target.bound.log.log_end_offset


def _read_all(cold: list[ColdRange]) -> None:
    for each in cold:
        each.read()
