"""Fetches of share consumers: acquire records for a member of a share group (KIP-932)."""

from __future__ import annotations

import asyncio

from ottla.broker.broker import Broker
from ottla.broker.fetch.delayed_fetch import DelayedFetch, PartitionReader
from ottla.broker.network.request_context import PendingResponse, RequestContext
from ottla.broker.remote_log.remote_reads import RemoteRecords
from ottla.broker.requests.leaders import LeaderHints
from ottla.broker.share.live_share_partition import LiveSharePartition
from ottla.broker.share.share_sessions import FINAL_EPOCH, Outcomes, SharedPartition, ShareSession, may_read
from ottla.log.cold_reads import read_cold
from ottla.protocol.codec import Response
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

_RECORD_LIMIT = 1  # the acquire mode


class ShareFetch(DelayedFetch):
    """Waits until records are available in a partition of its session, or a share-partition has loaded."""

    __slots__ = (
        "_acknowledged",
        "_answers",
        "_broker",
        "_failed",
        "_group_id",
        "_hints",
        "_live",
        "_loading",
        "_lock_ms",
        "_max_bytes",
        "_member_id",
        "_options",
        "_remote",
        "_served",
        "_session",
        "_unread",
    )

    def __init__(
        self,
        broker: Broker,
        request: ShareFetchRequest,
        context: RequestContext,
        session: ShareSession,
        group_id: str,
        member_id: str,
    ) -> None:
        super().__init__(broker.purgatory, request, context, request.max_wait_ms)
        self._broker = broker
        self._options = request
        self._session = session
        self._group_id = group_id
        self._member_id = member_id
        self._max_bytes = min(request.max_bytes, broker.fetch_max_bytes)
        self._acknowledged: Outcomes = {}
        self._answers: dict[SharedPartition, PartitionData] = {}
        self._unread: dict[SharedPartition, KafkaError] = {}  # partitions that failed to load
        self._loading: set[asyncio.Future[LiveSharePartition]] = set()
        self._live: dict[LiveSharePartition, None] = {}
        self._served: list[SharedPartition] = []
        self._remote: list[asyncio.Task[RemoteRecords]] = []  # reads to wait for
        self._failed = False
        self._lock_ms = broker.config.get_int("group.share.record.lock.duration.ms")
        self._hints = LeaderHints(broker, context.listener)

    def proceed(self, acknowledged: Outcomes) -> Response | PendingResponse:
        self._acknowledged = acknowledged
        request = self._options
        if request.share_session_epoch == FINAL_EPOCH:
            self._broker.sharing.sessions.end(self._group_id, self._member_id)
            return self.response()
        if request.max_records <= 0 or request.max_bytes <= 0 or request.is_renew_ack:
            return self.response()
        return self.start()

    # Reading

    def read(self, *, look_for_cold: bool) -> bool:
        self._reader = PartitionReader(self._max_bytes, whole=True)
        if look_for_cold:
            self._look_for_cold()
            if self.waits_for_disk:
                return False
            self._reader = PartitionReader(self._max_bytes, whole=True)
        self._acquire()
        is_satisfied = self._failed or self._served or self._acknowledged or not self._session.partitions
        return bool(is_satisfied)

    @property
    def waits_for_disk(self) -> bool:
        return bool(self._remote) or bool(self._reader.cold)

    def read_from_disk(self) -> None:
        if not self._remote:
            super().read_from_disk()
            return
        self._is_reading = True
        reading = self._purgatory.loop.create_task(self._read_remote_and_cold())
        reading.add_done_callback(self.on_read)

    async def _read_remote_and_cold(self) -> None:
        remote, self._remote = self._remote, []
        if self._reader.cold:
            await asyncio.to_thread(read_cold, self._reader.cold)
        await asyncio.wait(remote, timeout=self._broker.config.get_int("remote.fetch.max.wait.ms") / 1000)

    def _look_for_cold(self) -> None:
        """Look before any record is acquired: acquired records must be in the response."""
        self._remote = []
        for topic_id, index in self._session.partitions:
            live = self._broker.sharing.partitions.known(self._group_id, topic_id, index)
            if live is None:
                continue
            remote = live.remote_read()
            if remote is not None:
                if not remote.done():
                    self._remote.append(remote)
            elif live.is_cold(self._reader):
                self._reader.left -= self._reader.cold[-1].size
                if self._reader.left <= 0:
                    break

    def _acquire(self) -> None:
        request = self._options
        records_left = request.max_records
        self._live = {}
        for topic_id, index in self._session.partitions:
            answer = PartitionData(partition_index=index, records=b"")
            try:
                may_read(self._broker, self._context, topic_id)
                live = self._find((topic_id, index))
                if live is None:
                    continue
                self._live[live] = None
                handed = live.hand_out(
                    self._member_id,
                    self._reader,
                    records_left,
                    batch_size=request.batch_size,
                    strict=request.share_acquire_mode == _RECORD_LIMIT,
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
                records_left -= sum(last - first + 1 for first, last, _ in handed.acquired)
                self._served.append((topic_id, index))
            self._answers[topic_id, index] = answer

    def _find(self, partition: SharedPartition) -> LiveSharePartition | None:
        """Return the share-partition, or None while it loads; loading continues this request."""
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
        self.complete_soon()

    # Waiting

    def watch(self) -> None:
        for live in self._live:
            live.watchers.add(self)
            live.partition.watches_high_watermark.add(self)

    def unwatch(self) -> None:
        for live in self._live:
            live.watchers.discard(self)
            live.partition.watches_high_watermark.discard(self)

    # Answering

    def response(self) -> ShareFetchResponse:
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
