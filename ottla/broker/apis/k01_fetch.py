"""Fetch, key 1: read records from the log.

Behaviour
- Records are sent as the bytes on disk. A response may end inside a batch, which clients expect.
- The first partition with data returns at least one whole batch, however small the limits are.
- With fewer than min_bytes available the request waits; an append to one of its partitions wakes it. There is no
  polling.
- A thread first reads data that is not in memory, so that no other client waits for the disk.
- A client over its quota gets an empty response with its throttle time.
- Sessions (KIP-227) return only changed partitions. Consumers see nothing above the high watermark.
- From version 11 on followers serve consumers too, and with `replica.selector.class` a leader names the replica in the
  consumer's rack (KIP-392). `cluster.replication` handles fetches by followers.
- read_committed consumers see nothing above the last stable offset. The response lists aborted transactions, and
  consumers skip their records.

Version notes
- 5 log start offset; 7 sessions; 9 leader epochs; 10 zstd; 11 rack; 12 flexible, diverging epochs; 13 topic ids;
  15 replica state; 16 leader hints; 17 directory ids; 18 the follower's high watermark.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from itertools import islice

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.broker.network.pending import PendingResponse
from ottla.broker.network.slow_lane import SLICE, Work
from ottla.broker.requests.error_responses import error_response
from ottla.broker.requests.fetch_sessions import FetchPlan, FetchTarget
from ottla.broker.requests.leader_hints import LeaderHints
from ottla.broker.security.authorization import ConnectionRights
from ottla.cluster.partition import Partition
from ottla.cluster.replication.replica_selector import replica_near
from ottla.cluster.topic_counts import TopicCounts
from ottla.log.cold_reads import ColdRange, cold_range, read_cold
from ottla.log.errors import CorruptSegmentError, StorageError
from ottla.protocol.codec import Response
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.security.rights import CLUSTER_ACTION, READ_TOPIC

logger = logging.getLogger(__name__)

_FOLLOWERS_SERVE = 11
_TOPIC_IDS = 13
_HINTS_SINCE = 16
_READ_COMMITTED = 1
_MOST_AT_ONCE = 256  # partitions; more are read in slices
_PARTITION_OVERHEAD = 40  # bytes per partition besides its records, for quotas


def handle(
    broker: Broker, request: FetchRequest, context: RequestContext
) -> FetchResponse | PendingResponse | Work[FetchResponse | PendingResponse]:
    replica_id = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    if replica_id >= 0:
        if not context.allows(CLUSTER_ACTION):
            return _refuse_follower(request)
        context.cost = None  # quotas apply only to clients
        context.served.follower_requests += 1
        if context.timing is not None:
            context.timing.is_of_follower = True
        return broker.leader_fetch_handler.handle(
            request, context.version, replica_id, context.connection, context.pending_response
        )
    if context.is_large:
        return _plan_and_read_in_slices(broker, request, context)
    try:
        plan = broker.fetch_sessions.plan(request, context.version, broker.now_ms())
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    fetch = _Fetch(broker, request, plan, context)
    if len(plan.targets) > _MOST_AT_ONCE:
        return fetch.read_in_slices()
    fetch.read(look_for_cold=True)
    if fetch.cold:
        return fetch.read_from_disk()
    if fetch.is_satisfied:
        return fetch.response()
    return fetch.wait()


def _plan_and_read_in_slices(
    broker: Broker, request: FetchRequest, context: RequestContext
) -> Work[FetchResponse | PendingResponse]:
    try:
        plan = yield from broker.fetch_sessions.plan_in_slices(request, context.version, broker.now_ms())
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    return (yield from _Fetch(broker, request, plan, context).read_in_slices())


def _refuse_follower(request: FetchRequest) -> Work[FetchResponse]:
    """Reject a client posing as a broker, or a broker without the right, with Kafka's error code."""
    response = FetchResponse()
    entries = 0
    for topic in request.topics:
        answered = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id)
        response.responses.append(answered)
        for each in topic.partitions:
            answered.partitions.append(
                PartitionData(
                    partition_index=each.partition,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    high_watermark=-1,
                    records=b"",
                )
            )
            entries += 1
            if not entries % SLICE:
                yield None
    return response


class _Fetch:
    """One fetch request, from the first read to its response. It may wait once in between."""

    __slots__ = (
        "_answers",
        "_broker",
        "_by_id",
        "_bytes",
        "_bytes_held_back",
        "_committed_only",
        "_context",
        "_failed",
        "_hints",
        "_look_for_cold",
        "_max_bytes",
        "_max_wait",
        "_min_bytes",
        "_partitions",
        "_pending",
        "_plan",
        "_rack",
        "_read",
        "_request",
        "_stable",
        "_timer",
        "cold",
    )

    def __init__(
        self, broker: Broker, request: FetchRequest, plan: FetchPlan, context: RequestContext
    ) -> None:
        self._broker = broker
        self._request = request
        self._plan = plan
        self._context = context
        self._by_id = context.version >= _TOPIC_IDS
        self._max_bytes = min(request.max_bytes, broker.fetch_max_bytes)
        if context.cost is not None:
            self._max_bytes = min(self._max_bytes, broker.quotas.fetch_bytes(context) or self._max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._max_wait = request.max_wait_ms / 1000
        self._committed_only = request.isolation_level == _READ_COMMITTED
        self._rack = request.rack_id if broker.selects_replicas else ""
        self._answers: list[PartitionData] = []
        self._partitions: list[Partition] = []
        self._read: list[tuple[TopicCounts, int]] = []  # bytes read, by topic counter
        self._bytes = 0
        self._bytes_held_back = 0
        self._stable: dict[Partition, int] = {}
        self._failed = False
        self._hints: LeaderHints | None = None
        self._look_for_cold = False
        self.cold: list[ColdRange] = []
        self._pending: PendingResponse | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_satisfied(self) -> bool:
        return self._failed or self._bytes >= self._min_bytes or not self._plan.targets or self._max_wait <= 0

    def read(self, *, look_for_cold: bool = False) -> None:
        """Read every target. With `look_for_cold`, targets that would wait for the disk go to `cold` instead."""
        self._begin(look_for_cold)
        self._read_some(self._plan.targets, self._max_bytes)

    def read_in_slices(
        self, *, look_for_cold: bool = True, may_wait: bool = True
    ) -> Work[FetchResponse | PendingResponse]:
        """Read many targets, and answer if there is nothing to wait for."""
        self._begin(look_for_cold)
        left = self._max_bytes
        targets = self._plan.targets
        for at in range(0, len(targets), SLICE):
            left = self._read_some(targets[at : at + SLICE], left)
            yield None
        if self.cold:
            return self.read_from_disk()
        if may_wait and not self.is_satisfied:
            return self.wait()
        return (yield from self._response_in_slices())

    def _begin(self, look_for_cold: bool) -> None:
        self._look_for_cold = look_for_cold
        self.cold = []
        self._answers = []
        self._partitions = []
        self._read = []
        self._bytes = 0

    def _read_some(self, targets: list[FetchTarget], left: int) -> int:
        """Read into a response with `left` bytes of room. Return the remaining room."""
        answers = self._answers
        for target in targets:
            try:
                answer = self._read_one(target, left)
            except KafkaError as error:
                self._failed = True
                if self._broker.metrics is not None:
                    self._broker.metrics.fetch_failed(target.topic, target.topic_id, error.code)
                answer = self._refuse(target, error.code)
            answers.append(answer)
            if answer.records:
                size = len(answer.records)
                self._bytes += size
                left = max(left - size, 0)
        return left

    def _refuse(self, target: FetchTarget, error: int) -> PartitionData:
        answer = PartitionData(
            partition_index=target.index,
            error_code=error,
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
        )
        if self._context.version >= _HINTS_SINCE:
            self._hints = self._hints or LeaderHints(self._broker, self._context.listener)
            answer.current_leader = self._hints.leader(LeaderIdAndEpoch, target.topic_id, target.index, error)
        return answer

    def _authorize(self, target: FetchTarget, rights: ConnectionRights) -> None:
        """Check on every read: a right may have been revoked while the request waited."""
        name = target.topic
        if self._by_id:
            topic = self._broker.image.topics_by_id.get(target.topic_id)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            name = topic.name
        self._context.require(READ_TOPIC, name)
        rights.remember(READ_TOPIC, target.topic or target.topic_id)

    def _read_one(self, target: FetchTarget, left: int) -> PartitionData:
        rights = self._context.connection.rights
        if rights is not None and not rights.was_allowed(READ_TOPIC, target.topic or target.topic_id):
            self._authorize(target, rights)
        replicas = self._broker.replicas
        if self._context.version < _FOLLOWERS_SERVE:
            partition = replicas.leader(target.topic, target.index)
        else:
            partition = replicas.held(target.topic_id if self._by_id else target.topic, target.index)
        partition.check_epoch(target.current_leader_epoch)
        self._partitions.append(partition)
        log = partition.log
        stable = partition.last_stable_offset
        upto = stable if self._committed_only else partition.high_watermark
        answer = PartitionData(
            partition_index=target.index,
            high_watermark=partition.high_watermark,
            last_stable_offset=stable,
            log_start_offset=log.log_start_offset,
            aborted_transactions=[] if self._committed_only else None,
            records=b"",
        )
        if self._rack and partition.leading is not None:
            replica = replica_near(partition, target.fetch_offset, self._rack, self._broker.image)
            if replica is not None:
                answer.preferred_read_replica = replica
                self._failed = True  # answered immediately, like an error
                return answer
        if target.last_fetched_epoch >= 0:
            epoch, end_offset = log.epoch_end_offset(target.last_fetched_epoch)
            if epoch < 0 or end_offset < 0:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < target.last_fetched_epoch or end_offset < target.fetch_offset:
                answer.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
                self._failed = True  # answered immediately, like an error
                return answer
        if self._look_for_cold:
            cold = cold_range(log, target.fetch_offset, min(target.max_bytes, left))
            if cold is not None:
                self.cold.append(cold)
                return answer
        try:
            region = log.read(
                target.fetch_offset, min(target.max_bytes, left), upto=upto, min_one=self._bytes == 0
            )
        except (StorageError, CorruptSegmentError) as error:
            partition.storage_failed(error)
            raise
        if region.size:
            answer.records = region
        if partition.counts is not None:
            self._read.append((partition.counts, region.size))
        if self._committed_only:
            self._stable[partition] = stable
            if region.size:
                answer.aborted_transactions = [
                    AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                    for aborted in log.aborted_transactions(target.fetch_offset, region)
                ]
        return answer

    # Waiting

    def read_from_disk(self) -> PendingResponse:
        """Wait for the disk in a thread, then continue as if the data had been in memory."""
        self._pending = self._context.pending_response(blocks=True, on_abandon=self._stop_waiting)
        reading = self._broker.loop.run_in_executor(None, read_cold, self.cold)
        reading.add_done_callback(self._on_read)
        return self._pending

    def _on_read(self, reading: asyncio.Future[None]) -> None:
        if not reading.cancelled():
            reading.exception()  # the read below reports errors
        pending = self._pending
        assert pending is not None
        if not pending.is_complete:  # otherwise the client has disconnected
            self._read_again(pending, may_wait=True)

    def wait(self) -> PendingResponse:
        if self._pending is None:
            self._pending = self._context.pending_response(blocks=True, on_abandon=self._stop_waiting)
        self._wait()
        return self._pending

    def _wait(self) -> None:
        self._timer = self._broker.loop.call_later(self._max_wait, self._complete)
        for partition in self._partitions:
            partition.add_waiter(self)

    def grew(self, partition: Partition, count: int) -> None:
        if self._committed_only:
            if partition.last_stable_offset == self._stable.get(partition):
                self._bytes_held_back += count  # until their transaction ends
                return
            self._bytes += self._bytes_held_back
        self._bytes += count
        if self._bytes >= self._min_bytes:
            self._wake()

    def changed(self) -> None:
        """Answer with an error now because a partition was deleted or lost its leader."""
        self._wake()

    def _wake(self) -> None:
        # After this turn: the producer of the data gets its response first.
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._broker.loop.call_soon(self._complete)

    def _complete(self) -> None:
        assert self._pending is not None
        if not self._pending.is_complete:
            self._stop_waiting()
            self._read_again(self._pending, may_wait=False)

    def _read_again(self, pending: PendingResponse, *, may_wait: bool) -> None:
        if len(self._plan.targets) > _MOST_AT_ONCE:
            self._read_again_in_slices(pending, may_wait=may_wait)
            return
        try:
            self.read()
            if may_wait and not self.is_satisfied:
                self._wait()
                return
            response: Response = self.response()
        except Exception:
            logger.exception("Fetch v%d failed: %r", self._context.version, self._request)
            response = error_response(self._request, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
        pending.complete_now(response)

    def _read_again_in_slices(self, pending: PendingResponse, *, may_wait: bool) -> None:
        def done(answer: FetchResponse | PendingResponse | None, error: BaseException | None) -> None:
            if isinstance(answer, PendingResponse):
                return  # the same request keeps waiting
            if error is not None:
                logger.error("Fetch v%d of many partitions failed", self._context.version, exc_info=error)
                answer = FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
            pending.complete_now(answer)

        self._context.is_large = True
        work = self.read_in_slices(look_for_cold=False, may_wait=may_wait)
        self._context.connection.lane.run(work, done)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for partition in self._partitions:
            partition.remove_waiter(self)

    # Answering

    def response(self) -> FetchResponse:
        plan = self._plan
        if self._context.cost is not None and (throttled := self._throttled()) is not None:
            return throttled
        response = FetchResponse()
        served: list[FetchTarget] = []
        self._add(response, served, zip(plan.targets, self._answers, strict=True))
        return self._finished(response, served)

    def _response_in_slices(self) -> Work[FetchResponse]:
        if self._context.cost is not None and (throttled := self._throttled()) is not None:
            return throttled
        response = FetchResponse()
        served: list[FetchTarget] = []
        pairs = zip(self._plan.targets, self._answers, strict=True)
        while some := list(islice(pairs, SLICE)):
            self._add(response, served, some)
            yield None
        return self._finished(response, served)

    def _add(
        self,
        response: FetchResponse,
        served: list[FetchTarget],
        answers: Iterable[tuple[FetchTarget, PartitionData]],
    ) -> None:
        plan, topics = self._plan, response.responses
        current = topics[-1] if topics else None
        for target, answer in answers:
            if plan.session is not None:
                news = target.has_news(answer)
                if plan.incremental and not news:
                    continue
                if answer.records:
                    served.append(target)
            if current is None or current.topic != target.topic or current.topic_id != target.topic_id:
                current = FetchableTopicResponse(topic=target.topic, topic_id=target.topic_id)
                topics.append(current)
            current.partitions.append(answer)

    def _finished(self, response: FetchResponse, served: list[FetchTarget]) -> FetchResponse:
        plan = self._plan
        for counts, size in self._read:
            counts.fetches += 1
            counts.bytes_out += size
        if self._hints is not None:
            response.node_endpoints = self._hints.endpoints(NodeEndpoint)
        if plan.session is not None:
            if len(plan.targets) > 1:
                plan.session.served(served)
            response.session_id = plan.session.id
        return response

    def _throttled(self) -> FetchResponse | None:
        """Return an empty response for a client over its quota. The data is read again later."""
        size = self._bytes + _PARTITION_OVERHEAD * len(self._answers)
        wait = self._broker.quotas.throttle_fetch(self._context, size)
        if not wait:
            return None
        session = self._plan.session
        if session is not None and not self._plan.incremental:
            # Clients do not accept a session from an empty response
            self._broker.fetch_sessions.close(session)
            session = None
        return FetchResponse(session_id=session.id if session else 0, throttle_time_ms=wait)
