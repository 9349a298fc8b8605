"""A partition in a follower's fetch session: the follower's request, and the pending answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.log.errors import CorruptSegmentError, StorageError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import EpochEndOffset, FetchPartition, PartitionData

if TYPE_CHECKING:
    from ottla.cluster.partition import Partition
    from ottla.cluster.replicas import Replicas
    from ottla.cluster.replication.follower_session import FollowerSession

UNKNOWN = -1


class FetchedPartition:
    """Watches its partition, and marks itself as due in its session after each event.

    Owner: the event loop.
    """

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

    def __init__(self, session: FollowerSession, topic: str | bytes, index: int) -> None:
        self.session = session
        self.topic = topic
        self.index = index
        self.bound: Partition | None = None
        self.fetch_offset = 0
        self.current_leader_epoch = -1
        self.max_bytes = 0
        self.error = ErrorCode.NONE
        self.diverging: EpochEndOffset | None = None
        self.is_silent = False  # until the follower names the partition again
        self.sent_high_watermark = UNKNOWN
        self.sent_log_start_offset = UNKNOWN

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

    # Requests

    def update(self, asked: FetchPartition, replicas: Replicas, replica_id: int) -> None:
        """Record the fetch offset: the follower has everything below it."""
        self.is_silent = False
        self.error, self.diverging = ErrorCode.NONE, None
        self.fetch_offset = asked.fetch_offset
        self.current_leader_epoch = asked.current_leader_epoch
        self.max_bytes = asked.partition_max_bytes
        # The follower ignores a response that crossed this request, and may not have learned from it.
        self.sent_high_watermark = UNKNOWN
        self.sent_log_start_offset = asked.log_start_offset
        try:
            partition = self._partition(replicas)
            if self.diverges(partition, asked.last_fetched_epoch):
                return
            if partition.leading is None:
                # A new replica heard of its assignment before this leader did. It retries until the leader can count
                # it.
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            partition.leading.fetched(replica_id, asked.fetch_offset, asked.log_start_offset)
        except KafkaError as error:
            self.error = error.code

    def _partition(self, replicas: Replicas) -> Partition:
        try:
            if isinstance(self.topic, bytes):
                partition = replicas.leader_by_id(self.topic, self.index)
            else:
                partition = replicas.leader(self.topic, self.index)
        except KafkaError:
            self.bind(None)
            raise
        self.bind(partition)
        partition.check_epoch(self.current_leader_epoch)
        return partition

    def diverges(self, partition: Partition, last_fetched_epoch: int) -> bool:
        """Return True if the follower's last epoch contains records missing here. The answer then says where to
        truncate.
        """
        log, offset = partition.log, self.fetch_offset
        if last_fetched_epoch >= 0:
            epoch, end_offset = log.epoch_end_offset(last_fetched_epoch)
            if epoch < 0 or end_offset < 0 or offset < log.log_start_offset:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < last_fetched_epoch or end_offset < offset:
                self.diverging = EpochEndOffset(epoch=epoch, end_offset=end_offset)
                return True
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return False

    # Responses

    @property
    def reads(self) -> Partition | None:
        """Return the partition to read records from, or None if the answer is an error or a divergence."""
        return None if self.error or self.diverging is not None else self.bound

    def answer(self, replicas: Replicas, left: int, *, min_one: bool) -> PartitionData | None:
        """Return the answer with at most `left` bytes of records, or None if there is nothing to say."""
        try:
            if self.error:
                raise KafkaError(self.error)
            partition = self._partition(replicas)
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
            try:
                region = log.read(
                    self.fetch_offset,
                    min(self.max_bytes, left),
                    upto=log.log_end_offset,
                    min_one=min_one,
                )
            except (StorageError, CorruptSegmentError) as failure:
                partition.storage_failed(failure)
                raise
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
