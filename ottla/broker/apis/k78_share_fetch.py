"""ShareFetch, key 78: acquire records, and acknowledge earlier ones (KIP-932).

Behaviour
- Records are locked for the member until it acknowledges them or the lock times out. The broker sends whole batches,
  and `acquired_records` lists the member's records in them.
- Acknowledgements are applied first, all or none per partition, and written before the response.
- Without available records the request waits. An append, a released lock or a loaded share-partition wakes it. There is
  no polling.
- A broker that no longer leads a partition names the current leader. The new leader loads the state, without locks.
- Batches are locked as a whole, possibly exceeding `max_records`, unless the acquire mode is `record_limit`. Records
  locked together in batches of `batch_size` stay together when they are released. No records are returned if
  `max_records` or `max_bytes` is 0.
- A record that was returned too often is delivered with ever fewer others, the last time alone (`Acquisition`).
- Partitions without records and errors are omitted, even in the first response of a session.
- A session lives as long as its connection; its end releases its locks.

Version notes
- 1 first version; 2 lock renewal (KIP-1222) and the acquire mode (KIP-1206).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.broker.requests.leader_hints import LeaderHints
from ottla.broker.share.acknowledgements import Outcomes, acknowledge, may_read, named
from ottla.broker.share.live_share_partition import LiveSharePartition
from ottla.broker.share.share_sessions import FINAL_EPOCH, OPEN_EPOCH, SharedPartition, ShareSession
from ottla.cluster.partition import Partition
from ottla.log.cold_reads import ColdRange, read_cold
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ottla.security.rights import READ_GROUP

_RECORD_LIMIT = 1  # the acquire mode


def handle(
    broker: Broker, request: ShareFetchRequest, context: RequestContext
) -> ShareFetchResponse | Awaitable[ShareFetchResponse]:
    context.require(READ_GROUP, request.group_id or "")
    group_id, member_id = named(request.group_id, request.member_id)
    said = {
        (topic.topic_id, partition.partition_index): partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
    }
    sessions = broker.sharing.sessions
    if request.share_session_epoch == OPEN_EPOCH:
        if any(said.values()):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        session = sessions.open(group_id, member_id, context.connection)
    else:
        session = sessions.next(group_id, member_id, request.share_session_epoch)
    if request.share_session_epoch != FINAL_EPOCH:
        forgotten = [(t.topic_id, p) for t in request.forgotten_topics_data for p in t.partitions]
        session.change(said, forgotten)
    fetch = _ShareFetch(broker, request, context, session, group_id, member_id)
    outcomes = acknowledge(
        broker,
        context,
        group_id,
        member_id,
        {partition: batches for partition, batches in said.items() if batches},
        may_renew=context.version >= 2,
    )
    if isinstance(outcomes, dict):
        return fetch.proceed(outcomes)
    return _proceed(fetch, outcomes)


async def _proceed(fetch: _ShareFetch, pending: Awaitable[Outcomes]) -> ShareFetchResponse:
    answer = fetch.proceed(await pending)
    return answer if isinstance(answer, ShareFetchResponse) else await answer


class _ShareFetch:
    """One request, from its acknowledgements to its response. It may wait once in between."""

    def __init__(
        self,
        broker: Broker,
        request: ShareFetchRequest,
        context: RequestContext,
        session: ShareSession,
        group_id: str,
        member_id: str,
    ) -> None:
        self._broker = broker
        self._request = request
        self._context = context
        self._session = session
        self._group_id = group_id
        self._member_id = member_id
        self._acknowledged: Outcomes = {}
        self._answers: dict[SharedPartition, PartitionData] = {}
        self._unread: dict[SharedPartition, KafkaError] = {}  # partitions that failed to load
        self._loading: set[asyncio.Future[LiveSharePartition]] = set()
        self._live: list[LiveSharePartition] = []
        self._watched: set[LiveSharePartition] = set()
        self._served: list[SharedPartition] = []
        self._failed = False
        self._lock_ms = broker.config.get_int("group.share.record.lock.duration.ms")
        self._hints = LeaderHints(broker, context.listener)
        self._future: asyncio.Future[ShareFetchResponse] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0

    def proceed(self, acknowledged: Outcomes) -> ShareFetchResponse | asyncio.Future[ShareFetchResponse]:
        self._acknowledged = acknowledged
        request = self._request
        if request.share_session_epoch == FINAL_EPOCH:
            self._broker.sharing.sessions.end(self._group_id, self._member_id)
            return self._response()
        if request.max_records <= 0 or request.max_bytes <= 0 or request.is_renew_ack:
            return self._response()
        cold = self._cold_ranges()
        if cold:
            return self._read_from_disk(cold)
        self._read()
        satisfied = self._failed or bool(self._served) or bool(acknowledged)
        if satisfied or request.max_wait_ms <= 0 or not self._session.partitions:
            return self._response()
        return self._wait(request.max_wait_ms / 1000)

    def _read(self) -> None:
        request = self._request
        bytes_left = min(request.max_bytes, self._broker.fetch_max_bytes)
        records_left = request.max_records
        self._live = []
        for topic_id, index in self._session.partitions:
            answer = PartitionData(partition_index=index, records=b"")
            try:
                may_read(self._broker, self._context, topic_id)
                live = self._find((topic_id, index))
                if live is None:
                    continue
                self._live.append(live)
                handed = live.hand_out(
                    self._member_id,
                    bytes_left,
                    records_left,
                    batch_size=request.batch_size,
                    strict=request.share_acquire_mode == _RECORD_LIMIT,
                    min_one=not self._served,
                )
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
                if live.partition.counts is not None:
                    live.partition.counts.fetches += 1
                    live.partition.counts.bytes_out += len(handed.records)
                bytes_left = max(bytes_left - len(handed.records), 0)
                records_left -= sum(last - first + 1 for first, last, _ in handed.acquired)
                self._served.append((topic_id, index))
            self._answers[topic_id, index] = answer

    def _find(self, partition: SharedPartition) -> LiveSharePartition | None:
        """Return the share-partition, or None while it loads; loading wakes this request."""
        error = self._unread.pop(partition, None)
        if error is not None:
            raise error
        live = self._broker.sharing.partitions.get(self._group_id, *partition)
        if isinstance(live, LiveSharePartition):
            return live
        if live not in self._loading:
            self._loading.add(live)
            live.add_done_callback(lambda done: self._loaded(partition, done))
        return None

    def _loaded(self, partition: SharedPartition, done: asyncio.Future[LiveSharePartition]) -> None:
        self._loading.discard(done)
        error = None if done.cancelled() else done.exception()
        if isinstance(error, KafkaError):
            self._unread[partition] = error
        elif error is not None:
            self._unread[partition] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._wake()

    # Waiting

    def _cold_ranges(self) -> list[ColdRange]:
        """Return the log ranges for which `_read` would have to wait for the disk."""
        found = []
        left = min(self._request.max_bytes, self._broker.fetch_max_bytes)
        for topic_id, index in self._session.partitions:
            live = self._broker.sharing.partitions.known(self._group_id, topic_id, index)
            cold = None if live is None else live.cold_range(left)
            if cold is not None:
                found.append(cold)
                left -= cold.size
                if left <= 0:
                    break
        return found

    def _read_from_disk(self, cold: list[ColdRange]) -> asyncio.Future[ShareFetchResponse]:
        """Wait for the disk in a thread, then continue as if the data had been in memory."""
        future = self._begin_to_wait(max(self._request.max_wait_ms, 0) / 1000)
        self._read_cold(cold)
        return future

    def _read_cold(self, cold: list[ColdRange]) -> None:
        reading = self._broker.loop.run_in_executor(None, read_cold, cold)
        reading.add_done_callback(lambda _: self._complete(look_for_cold=False))

    def _wait(self, seconds: float) -> asyncio.Future[ShareFetchResponse]:
        future = self._begin_to_wait(seconds)
        self._timer = self._broker.loop.call_at(self._deadline, self._complete)
        self._watch()
        return future

    def _begin_to_wait(self, seconds: float) -> asyncio.Future[ShareFetchResponse]:
        loop = self._broker.loop
        self._future = loop.create_future()
        self._future.add_done_callback(self._stop_waiting)
        self._deadline = loop.time() + seconds
        return self._future

    def _watch(self) -> None:
        for live in self._live:
            if live not in self._watched:
                self._watched.add(live)
                live.waiters.add(self)
                live.partition.add_waiter(self)

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

    def _complete(self, *, look_for_cold: bool = True) -> None:
        assert self._future is not None
        if self._future.done():
            return
        self._timer = None
        try:
            cold = self._cold_ranges() if look_for_cold else []
            if cold:
                self._read_cold(cold)
                return
            self._read()
        except Exception as error:
            self._future.set_exception(error)  # the only way to inform the client
            return
        loop = self._broker.loop
        if self._served or self._failed or self._acknowledged or loop.time() >= self._deadline:
            self._future.set_result(self._response())
        else:
            # Another member was faster, or the loaded partition has no records yet.
            self._timer = loop.call_at(self._deadline, self._complete)
            self._watch()

    def _stop_waiting(self, _: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for live in self._watched:
            live.waiters.discard(self)
            live.partition.remove_waiter(self)

    # Answering

    def _response(self) -> ShareFetchResponse:
        response = ShareFetchResponse(acquisition_lock_timeout_ms=self._lock_ms)
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        for partition in {**self._answers, **dict.fromkeys(self._acknowledged)}:
            topic_id, index = partition
            answer = self._answers.get(partition) or PartitionData(partition_index=index, records=b"")
            error = self._acknowledged.get(partition)
            if error is not None:
                answer.acknowledge_error_code = error.code
                answer.acknowledge_error_message = error.message
            for code in (answer.error_code, answer.acknowledge_error_code):
                leader = self._hints.leader(LeaderIdAndEpoch, topic_id, index, code)
                answer.current_leader = leader or answer.current_leader
            if answer.error_code or answer.acquired_records or partition in self._acknowledged:
                if topic_id not in topics:
                    topics[topic_id] = ShareFetchableTopicResponse(topic_id=topic_id)
                    response.responses.append(topics[topic_id])
                topics[topic_id].partitions.append(answer)
        response.node_endpoints = self._hints.endpoints(NodeEndpoint)
        self._session.rotate(self._served)
        return response
