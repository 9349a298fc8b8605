"""Fetches of consumers: nothing above the high watermark, within sessions and quotas."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import islice

from ottla.broker.broker import Broker
from ottla.broker.fetch.delayed_fetch import DelayedFetch, PartitionReader
from ottla.broker.fetch.fetch_sessions import TOPIC_IDS, FetchPlan, FetchTarget
from ottla.broker.network.request_context import PendingResponse, RequestContext
from ottla.broker.network.slow_lane import SLICE, Work
from ottla.broker.remote_log.remote_reads import RemoteRecords, read_remote, retrieve
from ottla.broker.requests.leaders import LeaderHints
from ottla.broker.security.authorization import ConnectionRights
from ottla.cluster.partitions.partition import Partition
from ottla.cluster.partitions.topic_counts import TopicCounts
from ottla.cluster.replication.replica_selector import replica_near
from ottla.log.cold_reads import read_cold
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
from ottla.security.acls import READ_TOPIC

_FOLLOWERS_SERVE = 11
_HINTS_SINCE = 16
_READ_COMMITTED = 1
_MOST_AT_ONCE = 256  # partitions; more are read in slices
_PARTITION_OVERHEAD = 40  # bytes per partition besides its records, for quotas


class ConsumerFetch(DelayedFetch):
    """Waits until its partitions have `min_bytes` of new records."""

    __slots__ = (
        "_answers",
        "_broker",
        "_by_id",
        "_bytes",
        "_bytes_held_back",
        "_committed_only",
        "_counts",
        "_failed",
        "_hints",
        "_look_for_cold",
        "_max_bytes",
        "_min_bytes",
        "_partitions",
        "_plan",
        "_rack",
        "_remote",
        "_stable",
        "_waits_for_remote",
    )

    def __init__(
        self, broker: Broker, request: FetchRequest, plan: FetchPlan, context: RequestContext
    ) -> None:
        super().__init__(broker.purgatory, request, context, request.max_wait_ms)
        self._broker = broker
        self._plan = plan
        self._by_id = context.version >= TOPIC_IDS
        self._max_bytes = min(request.max_bytes, broker.fetch_max_bytes)
        if context.cost is not None:
            self._max_bytes = min(self._max_bytes, broker.quotas.fetch_bytes(context) or self._max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._committed_only = request.isolation_level == _READ_COMMITTED
        self._rack = request.rack_id if broker.selects_replicas else ""
        self._answers: list[PartitionData] = []
        self._partitions: list[Partition] = []
        self._counts: list[tuple[TopicCounts, int]] = []  # bytes read, by topic counter
        self._bytes = 0  # available, including progress since the last read
        self._bytes_held_back = 0
        self._stable: dict[Partition, int] = {}
        self._failed = False
        self._hints: LeaderHints | None = None
        self._look_for_cold = False
        self._remote: dict[tuple[Partition, int], asyncio.Task[RemoteRecords]] = {}
        self._waits_for_remote = False

    @property
    def has_many_targets(self) -> bool:
        return len(self._plan.targets) > _MOST_AT_ONCE

    # Reading

    @property
    def _is_satisfied(self) -> bool:
        return self._failed or self._bytes >= self._min_bytes or not self._plan.targets

    def read(self, *, look_for_cold: bool) -> bool:
        self._begin(look_for_cold)
        self._read_some(self._plan.targets)
        self._bytes = self._reader.size
        return self._is_satisfied

    def start_in_slices(self) -> Work[Response | PendingResponse]:
        """Read many targets, and answer if there is nothing to wait for."""
        is_satisfied = yield from self._read_in_slices(look_for_cold=True)
        if not self.waits_for_disk and (is_satisfied or self._is_final):
            self.cancel()
            return (yield from self._response_in_slices())
        self._is_reading = False
        return self.delay()

    def _read_in_slices(self, *, look_for_cold: bool) -> Work[bool]:
        """Read all partitions, and watch those already read: records may arrive in them between two slices."""
        self._is_reading = True
        try:
            while True:
                self._begin(look_for_cold)
                self._bytes = 0
                yield from self._read_and_watch()
                missed, self._bytes = self._bytes, self._bytes + self._reader.size
                if not missed or self._failed or self.waits_for_disk:
                    break
                if self._reader.size >= self._min_bytes or self._bytes < self._min_bytes:
                    break
                self.unwatch()
        except BaseException:
            self.unwatch()
            raise
        return self._is_satisfied

    def _read_and_watch(self) -> Work[None]:
        targets = self._plan.targets
        for at in range(0, len(targets), SLICE):
            watched = len(self._partitions)
            self._read_some(targets[at : at + SLICE])
            for partition in self._partitions[watched:]:
                partition.watches_high_watermark.add(self)
            yield None

    def read_again(self, *, look_for_cold: bool) -> None:
        if not self.has_many_targets:
            super().read_again(look_for_cold=look_for_cold)
            return

        def done(response: Response | None, error: BaseException | None) -> None:
            if error is not None:
                response = self.failure(error)
            if response is not None:
                self.answer(response)

        def work() -> Work[Response | None]:
            is_satisfied = yield from self._read_in_slices(look_for_cold=look_for_cold)
            if self.waits_for_disk or not (is_satisfied or self._is_final):
                self._is_reading = False
                if not self.is_complete:
                    self.delay()
                return None
            return (yield from self._response_in_slices())

        self._is_reading = self._context.is_large = True
        self._context.connection.lane.run(work(), done)

    @property
    def waits_for_disk(self) -> bool:
        return self._waits_for_remote or bool(self._reader.cold)

    def read_from_disk(self) -> None:
        if not self._waits_for_remote:
            super().read_from_disk()
            return
        self._is_reading = True
        task = self._purgatory.loop.create_task(self._read_remote_and_cold())
        task.add_done_callback(self.on_read)

    async def _read_remote_and_cold(self) -> None:
        loop = self._purgatory.loop
        cold = loop.run_in_executor(None, read_cold, self._reader.cold) if self._reader.cold else None
        seconds = self._broker.config.get_int("remote.fetch.max.wait.ms") / 1000
        await asyncio.wait(self._remote.values(), timeout=seconds)
        if cold is not None:
            await cold
        self._is_final = True  # a slow store must not hold up the other partitions any longer

    def _begin(self, look_for_cold: bool) -> None:
        self._look_for_cold = look_for_cold
        self._waits_for_remote = False
        self._reader = PartitionReader(self._max_bytes)
        self._answers = []
        self._partitions = []
        self._counts = []

    def _read_some(self, targets: list[FetchTarget]) -> None:
        answers = self._answers
        for target in targets:
            try:
                answer = self._read_one(target)
            except KafkaError as error:
                self._failed = True
                if self._broker.metrics is not None:
                    self._broker.metrics.fetch_failed(target.topic, target.topic_id, error.code)
                answer = self._refuse(target, error.code)
            answers.append(answer)

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

    def _read_one(self, target: FetchTarget) -> PartitionData:
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
        if self._broker.remote_log is not None and (
            log.log_start_offset <= target.fetch_offset < log.local_start_offset
        ):
            return self._read_remote(target, partition, answer)
        if self._look_for_cold and self._reader.is_cold(partition, target.fetch_offset, target.max_bytes):
            return answer
        region = self._reader.read(partition, target.fetch_offset, target.max_bytes, upto=upto)
        if region.size:
            answer.records = region
        if partition.counts is not None:
            self._counts.append((partition.counts, region.size))
        if self._committed_only:
            self._stable[partition] = stable
            if region.size:
                answer.aborted_transactions = [
                    AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                    for aborted in log.aborted_transactions(target.fetch_offset, region)
                ]
        return answer

    def _read_remote(self, target: FetchTarget, partition: Partition, answer: PartitionData) -> PartitionData:
        """Read below the local log: a task asks remote storage, and this read is repeated when it is done."""
        manager, reader = self._broker.remote_log, self._reader
        if manager is None:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if partition.counts is not None:
            self._counts.append((partition.counts, 0))
        if reader.left <= 0:
            return answer
        key = (partition, target.fetch_offset)
        task = self._remote.get(key)
        if task is None and self._look_for_cold:
            max_bytes = min(target.max_bytes, reader.left)
            task = self._remote[key] = self._purgatory.loop.create_task(
                read_remote(
                    manager, partition, target.fetch_offset, max_bytes, with_aborted=self._committed_only
                )
            )
            task.add_done_callback(retrieve)
        if task is None or not task.done():
            self._waits_for_remote = self._look_for_cold
            return answer
        del self._remote[key]
        found = task.result()
        reader.take(len(found.data))
        answer.records = found.data
        if self._committed_only:
            self._stable[partition] = answer.last_stable_offset
            answer.aborted_transactions = [
                AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                for aborted in found.aborted
            ]
        return answer

    # Waiting

    def watch(self) -> None:
        if self.has_many_targets:
            return  # watched since they were read
        for partition in self._partitions:
            partition.watches_high_watermark.add(self)

    def unwatch(self) -> None:
        for partition in self._partitions:
            partition.watches_high_watermark.discard(self)

    def try_complete(self, key: Partition, progress: int) -> None:
        if self._committed_only:
            if key.last_stable_offset == self._stable.get(key):
                self._bytes_held_back += progress  # until their transaction ends
                return
            self._bytes += self._bytes_held_back
        self._bytes += progress
        if self._bytes >= self._min_bytes:
            self._is_final = True
            self.complete_soon()

    def fail(self, key: Partition, error: ErrorCode) -> None:
        self._is_final = True
        self.complete_soon()

    # Answering

    def response(self) -> FetchResponse:
        plan = self._plan
        if self._context.cost is not None and (throttled := self._throttled()) is not None:
            return throttled
        response = FetchResponse()
        served: list[FetchTarget] = []
        self._add(response, served, zip(plan.targets, self._answers, strict=True))
        return self._complete_response(response, served)

    def _response_in_slices(self) -> Work[FetchResponse]:
        if self._context.cost is not None and (throttled := self._throttled()) is not None:
            return throttled
        response = FetchResponse()
        served: list[FetchTarget] = []
        pairs = zip(self._plan.targets, self._answers, strict=True)
        while some := list(islice(pairs, SLICE)):
            self._add(response, served, some)
            yield None
        return self._complete_response(response, served)

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

    def _complete_response(self, response: FetchResponse, served: list[FetchTarget]) -> FetchResponse:
        plan = self._plan
        for counts, size in self._counts:
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
        size = self._reader.size + _PARTITION_OVERHEAD * len(self._answers)
        wait = self._broker.quotas.throttle_fetch(self._context, size)
        if not wait:
            return None
        session = self._plan.session
        if session is not None and not self._plan.incremental:
            # Clients do not accept a session from an empty response
            self._broker.fetch_sessions.close(session)
            session = None
        return FetchResponse(session_id=session.id if session else 0, throttle_time_ms=wait)
