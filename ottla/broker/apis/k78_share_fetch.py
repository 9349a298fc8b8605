"""ShareFetch, key 78: get records that nobody else has, and say what came of earlier ones (KIP-932).

Behaviour
- Records are locked for the member until it acknowledges them or the lock times out; whole batches are sent, and
  `acquired_records` says which of their records are the member's.
- Acknowledgements are applied first, each partition's all or nothing, and written before they are answered.
- Where nothing is free the request waits; an append or a lock that ends wakes it. Nothing polls.
- Never more records than `max_records`, in either acquire mode.
- A session lives as long as its connection; when it ends, its locks are released.

Version notes
- 1 the first; 2 locks can be renewed (KIP-1222), and an acquire mode (KIP-1206).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.share_acknowledgements import acknowledge, named
from ottla.broker.share_partitions import LiveSharePartition
from ottla.broker.share_sessions import FINAL_EPOCH, OPEN_EPOCH, SharedPartition, ShareSession
from ottla.cluster.partition import Partition
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.dispatch import RequestContext


def handle(
    broker: Broker, request: ShareFetchRequest, context: RequestContext
) -> ShareFetchResponse | asyncio.Future[ShareFetchResponse]:
    group_id, member_id = named(request.group_id, request.member_id)
    acknowledged = {
        (topic.topic_id, partition.partition_index): partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
    }
    sessions = broker.sharing.sessions
    if request.share_session_epoch == OPEN_EPOCH:
        if any(acknowledged.values()):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        session = sessions.open(group_id, member_id, context.connection)
    else:
        session = sessions.next(group_id, member_id, request.share_session_epoch)
    is_final = request.share_session_epoch == FINAL_EPOCH
    if not is_final:
        forgotten = [(t.topic_id, p) for t in request.forgotten_topics_data for p in t.partitions]
        session.change(acknowledged, forgotten)
    fetch = _ShareFetch(broker, request, session, group_id, member_id)
    for partition, batches in acknowledged.items():
        if batches:
            fetch.acknowledged[partition] = acknowledge(
                broker, group_id, member_id, partition, batches, may_renew=context.version >= 2
            )
    if is_final:
        sessions.end(group_id, member_id)
        return fetch.response()
    if request.max_records <= 0 or request.is_renew_ack:
        return fetch.response()
    fetch.read()
    if fetch.is_satisfied or request.max_wait_ms <= 0 or not session.partitions:
        return fetch.response()
    return fetch.wait(request.max_wait_ms / 1000)


class _ShareFetch:
    """One request, from its acknowledgements to its response. It may wait once in between."""

    def __init__(
        self,
        broker: Broker,
        request: ShareFetchRequest,
        session: ShareSession,
        group_id: str,
        member_id: str,
    ) -> None:
        self._broker = broker
        self._session = session
        self._group_id = group_id
        self._member_id = member_id
        self._is_full = request.share_session_epoch == OPEN_EPOCH
        self._max_bytes = min(request.max_bytes, broker.fetch_max_bytes)
        self._max_records = request.max_records
        self.acknowledged: dict[SharedPartition, KafkaError | None] = {}
        self._answers: dict[SharedPartition, PartitionData] = {}
        self._live: list[LiveSharePartition] = []
        self._watched: list[LiveSharePartition] = []
        self._served: list[SharedPartition] = []
        self._failed = False
        self._lock_ms = broker.config.get_int("group.share.record.lock.duration.ms")
        self._future: asyncio.Future[ShareFetchResponse] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0

    @property
    def is_satisfied(self) -> bool:
        return self._failed or bool(self._served) or bool(self.acknowledged)

    def read(self) -> None:
        bytes_left, records_left = self._max_bytes, self._max_records
        self._live = []
        for topic_id, index in self._session.partitions:
            answer = PartitionData(partition_index=index, records=b"")
            try:
                live = self._broker.sharing.partitions.get(self._group_id, topic_id, index)
                self._live.append(live)
                handed = live.hand_out(self._member_id, bytes_left, records_left, min_one=not self._served)
            except KafkaError as error:
                self._failed = True
                answer.error_code, answer.error_message = error.code, error.message
                self._answers[topic_id, index] = answer
                continue
            self._lock_ms = live.lock_ms
            answer.current_leader = LeaderIdAndEpoch(
                leader_id=live.partition.leader, leader_epoch=live.partition.leader_epoch
            )
            if handed.acquired:
                answer.records = handed.records
                answer.acquired_records = [
                    AcquiredRecords(first_offset=first, last_offset=last, delivery_count=deliveries)
                    for first, last, deliveries in handed.acquired
                ]
                bytes_left = max(bytes_left - len(handed.records), 0)
                records_left -= sum(last - first + 1 for first, last, _ in handed.acquired)
                self._served.append((topic_id, index))
            self._answers[topic_id, index] = answer

    # Waiting

    def wait(self, seconds: float) -> asyncio.Future[ShareFetchResponse]:
        loop = self._broker.loop
        self._future = loop.create_future()
        self._future.add_done_callback(self._stop_waiting)
        self._deadline = loop.time() + seconds
        self._timer = loop.call_at(self._deadline, self._complete)
        self._watched = list(self._live)
        for live in self._watched:
            live.waiters.add(self)
            live.partition.add_waiter(self)
        return self._future

    def grew(self, partition: Partition, count: int) -> None:
        self._wake()

    def changed(self) -> None:
        self._wake()

    def freed(self) -> None:
        self._wake()

    def _wake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._broker.loop.call_soon(self._complete)

    def _complete(self) -> None:
        assert self._future is not None
        if self._future.done():
            return
        self.read()
        loop = self._broker.loop
        if self._served or self._failed or loop.time() >= self._deadline:
            self._future.set_result(self.response())
        else:
            # Somebody else was faster.
            self._timer = loop.call_at(self._deadline, self._complete)

    def _stop_waiting(self, _: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for live in self._watched:
            live.waiters.discard(self)
            live.partition.remove_waiter(self)

    # Answering

    def response(self) -> ShareFetchResponse:
        response = ShareFetchResponse(acquisition_lock_timeout_ms=self._lock_ms)
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        for partition in {**self._answers, **dict.fromkeys(self.acknowledged)}:
            topic_id, index = partition
            answer = self._answers.get(partition) or PartitionData(partition_index=index, records=b"")
            error = self.acknowledged.get(partition)
            if error is not None:
                answer.acknowledge_error_code = error.code
                answer.acknowledge_error_message = error.message
            has_news = answer.error_code or answer.acquired_records or partition in self.acknowledged
            if self._is_full or has_news:
                if topic_id not in topics:
                    topics[topic_id] = ShareFetchableTopicResponse(topic_id=topic_id)
                    response.responses.append(topics[topic_id])
                topics[topic_id].partitions.append(answer)
        self._session.rotate(self._served)
        return response
