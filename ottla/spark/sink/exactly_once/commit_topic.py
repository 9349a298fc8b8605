"""Topic that holds the commit log of one query: reading, appending and trimming."""

from __future__ import annotations

import time

from ottla.client.admin.offsets import delete_records
from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError, TopicNotFound, Unreachable, error_code
from ottla.client.fetch import FetchOptions, PartitionFetcher
from ottla.client.offsets import EARLIEST, list_offsets
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import COMMIT_TOPIC_PREFIX
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.record_format import Record
from ottla.protocol.records import build_batch, read_records
from ottla.spark.sink.exactly_once.commit_log import CommitState
from ottla.spark.source.data_loss import log

_ALL = -1
_MOST_REPLICAS = 3
#: Records never expire, because a query may be stopped for years.
_CONFIGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": "4194304",
}
#: Last version with topic names; later versions use topic ids.
_LAST_WITH_NAMES = 12
#: Delete records before the last decision once there are this many, so that a new process has little to read.
_TRIM_AFTER = 300
_AT_ONCE = FetchOptions(max_bytes=8 << 20, min_bytes=0, max_wait_ms=0)


class CommitTopic:
    """Invariant: `state` is the replay of the log up to `_next`. Owner: one thread of one process."""

    def __init__(self, query: str) -> None:
        self._partition = TopicPartition(f"{COMMIT_TOPIC_PREFIX}{query}", 0)
        self._start = 0
        self._next = -1  # nothing read yet
        self._topic_id = ZERO_UUID
        self.state = CommitState()

    @property
    def name(self) -> str:
        return self._partition.topic

    def read(self, cluster: Cluster) -> CommitState:
        return cluster.retrying(lambda: self._read(cluster), [self.name])

    def append(self, cluster: Cluster, record: bytes) -> CommitState:
        """Append the record and return the state at the end of the log.

        A record that is written twice after a lost response counts once.
        """
        offset = cluster.retrying(lambda: self._append(cluster, record), [self.name])
        state = self.read(cluster)
        if self._next <= offset:
            raise ClientError(f"Topic '{self.name}' does not return the record that was just written to it.")
        return state

    def trim(self, cluster: Cluster) -> None:
        """Delete records before the last decision. A failure only leaves the topic longer than necessary."""
        decision = self.state.decision
        if decision is None or decision.offset - self._start < _TRIM_AFTER:
            return
        self._start = decision.offset
        try:
            delete_records(cluster, {(self.name, 0): decision.offset})
        except ClientError as error:
            log.warning("Records that topic '%s' no longer needs stay in it: %s", self.name, error.message)

    def _read(self, cluster: Cluster) -> CommitState:
        if self._next < 0 or self._was_created_again(cluster):
            self._begin_reading(cluster)
        fetcher = PartitionFetcher(cluster, self._partition, _AT_ONCE)
        while True:
            try:
                fetched = fetcher.fetch(self._next)
            except ClientError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                self._begin_reading(cluster)  # the log was trimmed, or the topic recreated
                continue
            for header, records in read_records(fetched.records):
                for record in records:
                    if record.offset >= self._next and record.value is not None:
                        self.state = self.state.after(record.offset, record.value)
                self._next = max(self._next, header.next_offset)
            if self._next >= fetched.high_watermark:
                return self.state

    def _was_created_again(self, cluster: Cluster) -> bool:
        """Return True if the topic was recreated, so that the cached state belongs to a deleted log."""
        cluster.leader(self._partition)  # make sure that the topic exists
        return cluster.topic_id(self.name) != self._topic_id

    def _begin_reading(self, cluster: Cluster) -> None:
        if not cluster.topics([self.name]):
            self._create(cluster)
        self._topic_id = cluster.topic_id(self.name)
        found = list_offsets(cluster, {self._partition: EARLIEST}, seconds=0)
        self._start = self._next = found[self._partition].offset
        self.state = CommitState()

    def _create(self, cluster: Cluster) -> None:
        replicas = min(_MOST_REPLICAS, len(cluster.connections()))
        configs = {**_CONFIGS, "min.insync.replicas": str(max(1, replicas - 1))}
        try:
            create_topic(cluster, self.name, partitions=1, replication_factor=replicas, configs=configs)
        except Unreachable:
            raise
        except ClientError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                message = f"Topic '{self.name}', which exactly-once needs, cannot be created: {error.message}"
                raise ClientError(message, error.code) from None
        if not cluster.topics([self.name]):
            raise TopicNotFound(self.name)  # not yet: `retrying` tries again

    def _append(self, cluster: Cluster, record: bytes) -> int:
        leader = cluster.leader(self._partition)
        topic_id = cluster.topic_id(self.name)
        now = time.time_ns() // 1_000_000
        batch = build_batch(
            [Record(0, now, None, record)], codec=Codec.GZIP if len(record) > 1000 else Codec.NONE
        )
        request = ProduceRequest(
            acks=_ALL,
            timeout_ms=int(cluster.settings.request_timeout * 1000),
            topic_data=[
                TopicProduceData(
                    name=self.name,
                    topic_id=topic_id,
                    partition_data=[PartitionProduceData(index=0, records=batch)],
                )
            ],
        )
        version = _LAST_WITH_NAMES if topic_id == ZERO_UUID else None
        answer = leader.request(request, ProduceResponse, max_version=version)
        part = answer.responses[0].partition_responses[0]
        code = error_code(part.error_code)
        if code != ErrorCode.NONE:
            raise ClientError(
                f"Topic '{self.name}' cannot be written: {part.error_message or code.name}.", code
            )
        return part.base_offset
