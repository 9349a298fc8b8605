"""The leader's side of replication: fetches of followers, which may read up to the log end offset.

A follower has one session on one connection. Partitions notify the session of events, so that a fetch visits only
partitions with news. `cluster.replication.follower_fetcher` is the follower's side and describes the rule shared by
both.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from ottla.broker.fetch.delayed_fetch import DelayedFetch, PartitionReader
from ottla.broker.fetch.fetch_sessions import TOPIC_IDS, FetchSession, FetchTarget, SessionCache
from ottla.log.cold_reads import read_cold
from ottla.protocol.codec import Response
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from ottla.broker.network.connection import Connection
    from ottla.broker.network.request_context import PendingResponse, RequestContext
    from ottla.cluster.partitions.partition import Partition
    from ottla.cluster.replicas import Replicas

_UNKNOWN = -1


class FollowerSessions(SessionCache["FollowerSession"]):
    """The sessions of followers; each ends with its connection."""

    def __init__(self, replicas: Replicas) -> None:
        super().__init__()
        self._replicas = replicas

    def followers(self, since: float) -> set[int]:
        """Return the brokers that follow a partition led here and have fetched since then (monotonic time)."""
        return {
            session.replica_id
            for session in self._sessions.values()
            if session.asked_at >= since and session.targets
        }

    def fetch(
        self, request: FetchRequest, context: RequestContext, replica_id: int
    ) -> Response | PendingResponse:
        try:
            session = self._session(request, context, replica_id)
        except KafkaError as error:
            return FetchResponse(error_code=error.code)
        return session.fetch(request, context)

    def _session(self, request: FetchRequest, context: RequestContext, replica_id: int) -> FollowerSession:
        by_id, connection = context.version >= TOPIC_IDS, context.connection
        if request.session_epoch == FINAL_EPOCH:
            return FollowerSession(self._replicas, 0, connection, replica_id, by_id)
        if request.session_epoch == INITIAL_EPOCH:
            self._close(request.session_id)
            session_id = self._new_id()
            session = FollowerSession(self._replicas, session_id, connection, replica_id, by_id)
            self._sessions[session_id] = session
            connection.closing[session] = lambda: self._close(session_id)
            return session
        found = self._find(request, by_id)
        if found.connection is not connection:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return found

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.connection.closing.pop(session, None)
            session.close()


class FollowerSession(FetchSession):
    """The partitions fetched by one follower. Owner: the event loop."""

    __slots__ = ("_held", "asked_at", "connection", "due", "reading", "replica_id", "replicas", "waiting")

    targets: dict[tuple[str | bytes, int], FollowerTarget]  # type: ignore[assignment]

    def __init__(
        self, replicas: Replicas, session_id: int, connection: Connection, replica_id: int, by_id: bool
    ) -> None:
        super().__init__(session_id, by_id)
        self.replicas = replicas
        self.connection = connection
        self.replica_id = replica_id
        self.asked_at = monotonic()
        self.epoch = INITIAL_EPOCH
        self.due: dict[FollowerTarget, None] = {}  # partitions that may have news
        self.waiting: FollowerFetch | None = None
        self.reading: asyncio.Future[None] | None = None  # a thread that reads from disk
        self._held: asyncio.TimerHandle | None = None  # until throttled replicas may get more

    def fetch(self, request: FetchRequest, context: RequestContext) -> Response | PendingResponse:
        if self.waiting is not None:
            self.waiting.expire()  # the follower has a new request and does not want to wait
        self.advance()
        self.asked_at = monotonic()
        self.update(request.topics)
        self.forget(request.forgotten_topics_data)
        return FollowerFetch(self, request, context).start()

    def new_target(self, topic: FetchTopic, partition: FetchPartition) -> FollowerTarget:
        return FollowerTarget(self, topic.topic, topic.topic_id, partition)

    def forget(self, forgotten: list[ForgottenTopic]) -> None:
        for topic in forgotten:
            for index in topic.partitions:
                target = self.targets.pop((topic.topic_id if self.by_id else topic.topic, index), None)
                if target is not None:
                    target.bind(None)
                    self.due.pop(target, None)

    def wake(self) -> None:
        if self.waiting is not None:
            self.waiting.complete_soon()

    def hold(self, seconds: float) -> None:
        """Wake the waiting fetch when the throttle permits more records."""
        if self._held is None:
            self._held = asyncio.get_running_loop().call_later(seconds, self._release)

    def _release(self) -> None:
        self._held = None
        self.wake()

    def close(self) -> None:
        for target in self.targets.values():
            target.bind(None)
        self.targets.clear()
        self.due.clear()
        if self.waiting is not None:
            self.waiting.cancel()
        if self._held is not None:
            self._held.cancel()
            self._held = None


class FollowerFetch(DelayedFetch):
    """Waits until partitions of its session have `min_bytes`, or news that the follower needs at once."""

    __slots__ = ("_answers", "_max_bytes", "_min_bytes", "_session")

    blocks = False

    def __init__(self, session: FollowerSession, request: FetchRequest, context: RequestContext) -> None:
        super().__init__(session.replicas.leader_context.purgatory, request, context, request.max_wait_ms)
        self._session = session
        self._max_bytes = request.max_bytes
        self._min_bytes = min(request.min_bytes, request.max_bytes)
        self._answers: list[tuple[FollowerTarget, PartitionData]] = []

    # Waiting

    @property
    def waits_for_disk(self) -> bool:
        reading = self._session.reading
        return bool(self._reader.cold) or (reading is not None and not reading.done())

    def read_from_disk(self) -> None:
        session = self._session
        session.waiting = self
        if session.reading is None or session.reading.done():
            session.reading = self._purgatory.loop.run_in_executor(None, read_cold, self._reader.cold)
        self._is_reading = True
        session.reading.add_done_callback(self.on_read)

    def watch(self) -> None:
        self._session.waiting = self

    def unwatch(self) -> None:
        if self._session.waiting is self:
            self._session.waiting = None

    def expire(self) -> None:
        """Answer with the available records, possibly none. A follower does not wait for a slow disk."""
        self._is_final = True
        self._answers = []
        self._reader = PartitionReader(self._max_bytes)
        try:
            if not self._is_reading:
                self.read(look_for_cold=False)
            response: Response = self.response()
        except Exception as error:
            response = self.failure(error)
        self.cancel()
        assert self._pending is not None
        self._pending.complete(response)

    # Reading

    def read(self, *, look_for_cold: bool) -> bool:
        """Read the due partitions; False if they have fewer than min_bytes."""
        session, throttle = self._session, self._session.replicas.leader_throttle
        reader = self._reader = PartitionReader(self._max_bytes)
        self._answers = []
        if look_for_cold:
            self._look_for_cold()
            if self.waits_for_disk:
                return False
        answers = []
        answered: list[FollowerTarget] = []
        throttled_size, is_held, is_urgent = 0, False, self._is_final
        for target in tuple(session.due):
            if reader.left <= 0:
                break
            most, is_throttled = reader.left, self._is_throttled(target)
            if is_throttled:
                most = min(most, throttle.share(throttled_size))
                if most <= 0:
                    is_held = True
                    continue
            min_one = reader.size == 0 or is_throttled
            answer = target.answer(reader, most, min_one=min_one)
            if not min_one and target.lacks_room(answer):
                break  # its next batch exceeds the rest of this response, and comes first in the next one
            answered.append(target)
            if answer is None:
                continue
            answers.append((target, answer))
            if answer.records:
                if is_throttled:
                    throttled_size += len(answer.records)
            elif (
                answer.error_code
                or answer.diverging_epoch is not None
                or answer.log_start_offset > target.sent_log_start_offset > _UNKNOWN
            ):
                is_urgent = True
        if is_held:
            session.hold(throttle.wait())
        if reader.size < self._min_bytes and not is_urgent:
            return False
        if throttled_size:
            throttle.take(throttled_size)
        for target in answered:
            del session.due[target]
        self._answers = answers
        return True

    def _look_for_cold(self) -> None:
        session = self._session
        for target in session.due:
            partition = target.reads
            if partition is not None:
                if self._is_throttled(target) and session.replicas.leader_throttle.left() < 1:
                    continue
                self._reader.is_cold(partition, target.fetch_offset, target.max_bytes)

    def _is_throttled(self, target: FollowerTarget) -> bool:
        """Return True if the replication throttle may hold back records of this partition."""
        partition = target.reads
        return (
            partition is not None
            and self._session.replicas.leader_throttle.covers(partition, self._session.replica_id)
            and target.fetch_offset < partition.log.log_end_offset
        )

    def response(self) -> FetchResponse:
        session = self._session
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for target, answer in self._answers:
            if answer.error_code or answer.records or answer.diverging_epoch is not None:
                target.is_silent = True
            target.sent_high_watermark = answer.high_watermark
            target.sent_log_start_offset = answer.log_start_offset
            if answer.records and target.bound is not None and target.bound.counts is not None:
                target.bound.counts.replicated_out += len(answer.records)
            name: str | bytes = target.topic_id if session.by_id else target.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = FetchableTopicResponse(topic=target.topic, topic_id=target.topic_id)
            topic.partitions.append(answer)
        if not session.id:
            session.close()
        return FetchResponse(session_id=session.id, responses=list(topics.values()))


class FollowerTarget(FetchTarget):
    """A partition of a follower's session. It watches the partition and marks itself as due after each event.

    Owner: the event loop.
    """

    __slots__ = ("bound", "diverging", "error", "is_silent", "session")

    def __init__(
        self, session: FollowerSession, topic: str, topic_id: bytes, partition: FetchPartition
    ) -> None:
        self.session = session
        self.bound: Partition | None = None
        self.error = ErrorCode.NONE
        self.diverging: EpochEndOffset | None = None
        self.is_silent = False  # until the follower names the partition again
        super().__init__(topic, topic_id, partition)

    def bind(self, partition: Partition | None) -> None:
        if self.bound is not partition:
            if self.bound is not None:
                self.bound.watches_end.discard(self)
                self.bound.watches_high_watermark.discard(self)
            if partition is not None:
                partition.watches_end.add(self)
                partition.watches_high_watermark.add(self)
            self.bound = partition

    def try_complete(self, key: Partition, progress: int) -> None:
        """Note an event. A new high watermark alone can wait for the next response."""
        if not self.is_silent:
            self.session.due[self] = None
            log = key.log
            if self.fetch_offset < log.log_end_offset or self.sent_log_start_offset < log.log_start_offset:
                self.session.wake()

    def fail(self, key: Partition, error: ErrorCode) -> None:
        if not self.is_silent:
            self.session.due[self] = None
            self.session.wake()

    # Requests

    def update(self, partition: FetchPartition) -> None:
        """Record the fetch offset: the follower has everything below it."""
        super().update(partition)
        session = self.session
        session.due[self] = None
        self.is_silent = False
        self.error, self.diverging = ErrorCode.NONE, None
        # The follower ignores a response that crossed this request, and may not have learned from it.
        self.sent_high_watermark = _UNKNOWN
        self.sent_log_start_offset = partition.log_start_offset
        try:
            bound = self._partition()
            self.diverging = divergence(bound, self.fetch_offset, self.last_fetched_epoch)
            if self.diverging is not None:
                return
            if bound.leading is None:
                # A new replica heard of its assignment before this leader did. It retries until the leader can count
                # it.
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            bound.leading.fetched(session.replica_id, self.fetch_offset, partition.log_start_offset)
        except KafkaError as error:
            self.error = error.code

    def _partition(self) -> Partition:
        session = self.session
        try:
            if session.by_id:
                partition = session.replicas.leader_by_id(self.topic_id, self.index)
            else:
                partition = session.replicas.leader(self.topic, self.index)
        except KafkaError:
            self.bind(None)
            raise
        self.bind(partition)
        partition.check_epoch(self.current_leader_epoch)
        return partition

    # Responses

    @property
    def reads(self) -> Partition | None:
        """Return the partition to read records from, or None if the answer is an error or a divergence."""
        return None if self.error or self.diverging is not None else self.bound

    def answer(self, reader: PartitionReader, most: int, *, min_one: bool) -> PartitionData | None:
        """Return the answer with at most `most` bytes of records, or None if there is nothing to say."""
        try:
            if self.error:
                raise KafkaError(self.error)
            partition = self._partition()
            log = partition.log
            answer = PartitionData(
                partition_index=self.index,
                high_watermark=partition.high_watermark,
                last_stable_offset=partition.high_watermark,
                log_start_offset=log.log_start_offset,
                aborted_transactions=None,
                records=b"",
            )
            if self.diverging is not None:
                answer.diverging_epoch = self.diverging
                return answer
            region = reader.read(
                partition,
                self.fetch_offset,
                min(self.max_bytes, most),
                upto=log.log_end_offset,
                min_one=min_one,
            )
        except KafkaError as failure:
            return PartitionData(
                partition_index=self.index,
                error_code=failure.code,
                high_watermark=-1,
                aborted_transactions=None,
                records=b"",
            )
        if region.size:
            answer.records = region
        elif (
            answer.high_watermark == self.sent_high_watermark
            and answer.log_start_offset == self.sent_log_start_offset
        ):
            return None
        return answer

    def lacks_room(self, answer: PartitionData | None) -> bool:
        """Return True if records exist but none fit in the answer."""
        if answer is not None and (answer.records or answer.error_code or answer.diverging_epoch is not None):
            return False
        return self.bound is not None and self.fetch_offset < self.bound.log.log_end_offset


def divergence(partition: Partition, offset: int, last_fetched_epoch: int) -> EpochEndOffset | None:
    """Return where a follower has to truncate if its last epoch contains records missing here."""
    log = partition.log
    if last_fetched_epoch >= 0:
        epoch, end_offset = log.epoch_end_offset(last_fetched_epoch)
        if epoch < 0 or end_offset < 0 or offset < log.log_start_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch < last_fetched_epoch or end_offset < offset:
            return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if offset < log.segments.base_offset:
        raise KafkaError(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE)
    return None
