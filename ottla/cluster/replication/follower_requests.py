"""Requests of followers: the fetchers of a broker, offsets for truncation, confirmation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from ottla.cluster.partitions.partition import Partition
from ottla.cluster.peers import PeerConnection
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    ReplicaState,
)

# Determine where a follower truncates a log that diverged from its leader's (KIP-101, KIP-279, KIP-595).
#
# `FollowerFetcher._truncate` applies this rule to the leader's answer; `Partition.truncate_to` truncates the log.

EpochEnd = tuple[int, int]  # leader epoch and the offset after its last record

UNDEFINED = -1


def truncation_offset(log_end_offset: int, high_watermark: int, own: EpochEnd, leaders: EpochEnd) -> int:
    """Return the truncation offset, given the ends of the same epoch in the leader's log and in this one.

    `leaders` is the leader's largest epoch at or below the last epoch here. `own` is the end of that epoch here, or of
    the largest epoch before it. If the two epochs differ, the next fetch returns an earlier one, until both logs know
    it.
    """
    leader_epoch, leader_end = leaders
    if leader_end == UNDEFINED:
        return high_watermark  # nothing is known about earlier records: only committed ones are certain
    own_epoch, own_end = own
    if own_end == UNDEFINED:
        return min(leader_end, log_end_offset)
    if own_epoch != leader_epoch:
        return min(own_end, log_end_offset)
    return min(own_end, leader_end, log_end_offset)


# Requests from a follower to its leader.

FETCH_VERSION = 17
_LIST_OFFSETS_VERSION = 9
_LATEST, _EARLIEST, _EARLIEST_LOCAL = -1, -2, -4

Key = tuple[bytes, int]  # topic id and partition
# Gets a partition, and offset and epoch of the leader's local log start. Returns an offset, and the leader epochs and
# the producer snapshot at that offset.
RebuildState = Callable[[Partition, int, int], Awaitable[tuple[int, list[tuple[int, int]], bytes]]]


class FetcherSettings(NamedTuple):
    wait_max_ms: int
    min_bytes: int
    max_bytes: int  # per partition
    response_max_bytes: int
    backoff: float
    timeout: float

    @classmethod
    def of(cls, config: BrokerConfig) -> FetcherSettings:
        return cls(
            config.get_int("replica.fetch.wait.max.ms"),
            config.get_int("replica.fetch.min.bytes"),
            config.get_int("replica.fetch.max.bytes"),
            config.get_int("replica.fetch.response.max.bytes"),
            config.get_int("replica.fetch.backoff.ms") / 1000,
            config.get_int("replica.socket.timeout.ms") / 1000,
        )


def fetch_request(
    broker_id: int,
    settings: FetcherSettings,
    named: Iterable[tuple[Partition, int]],
    forgotten: Iterable[Key],
) -> FetchRequest:
    """Fetch the named partitions at their log end offsets with a byte limit each, and drop the forgotten ones."""
    topics: dict[bytes, FetchTopic] = {}
    for partition, max_bytes in named:
        log = partition.log
        topic = topics.get(partition.topic_id)
        if topic is None:
            topic = topics[partition.topic_id] = FetchTopic(topic_id=partition.topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=partition.index,
                current_leader_epoch=partition.leader_epoch,
                fetch_offset=log.log_end_offset,
                last_fetched_epoch=log.epochs.latest,
                log_start_offset=log.durable_start_offset,
                partition_max_bytes=max_bytes,
            )
        )
    left: dict[bytes, ForgottenTopic] = {}
    for topic_id, index in forgotten:
        left.setdefault(topic_id, ForgottenTopic(topic_id=topic_id)).partitions.append(index)
    return FetchRequest(
        replica_state=ReplicaState(replica_id=broker_id),
        max_wait_ms=settings.wait_max_ms,
        min_bytes=settings.min_bytes,
        max_bytes=settings.response_max_bytes,
        topics=list(topics.values()),
        forgotten_topics_data=list(left.values()),
    )


async def ask_offsets(peer: PeerConnection, broker_id: int, partition: Partition) -> tuple[int, int]:
    """Return the leader's log start and end offsets. Raises KafkaError or OSError."""
    start, _ = await _ask_offset(peer, broker_id, partition, _EARLIEST)
    end, _ = await _ask_offset(peer, broker_id, partition, _LATEST)
    return start, end


async def ask_local_start(peer: PeerConnection, broker_id: int, partition: Partition) -> tuple[int, int, int]:
    """Return the leader's log start offset, and offset and leader epoch of its local log start."""
    start, _ = await _ask_offset(peer, broker_id, partition, _EARLIEST)
    return start, *await _ask_offset(peer, broker_id, partition, _EARLIEST_LOCAL)


async def _ask_offset(
    peer: PeerConnection, broker_id: int, partition: Partition, timestamp: int
) -> tuple[int, int]:
    asked = ListOffsetsPartition(
        partition_index=partition.index,
        current_leader_epoch=partition.leader_epoch,
        timestamp=timestamp,
    )
    topic = ListOffsetsTopic(name=partition.topic, partitions=[asked])
    request = ListOffsetsRequest(replica_id=broker_id, topics=[topic])
    response = await peer.request(request, _LIST_OFFSETS_VERSION)
    answer = response.topics[0].partitions[0]
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code))
    return answer.offset, answer.leader_epoch


# Confirm this broker's leadership through its followers while ZooKeeper is unavailable.

# A follower silent for this long may have another leader.
_SILENCE_SECONDS = 2.0
# Every request asks, and computing an answer visits all partitions, so answers are cached briefly.
_VALID_SECONDS = 0.25


class FollowerConfirmation:
    """Derives leadership from follower fetches. A follower that becomes leader stops fetching from this broker.

    While every possible successor still fetches, this broker is still the leader. Owner: the event loop.
    """

    def __init__(
        self,
        broker_id: int,
        partitions: Callable[[], Iterable[Partition]],
        followers: Callable[[float], set[int]],
    ) -> None:
        """`followers` returns the brokers that have fetched since a point in time."""
        self._id = broker_id
        self._partitions = partitions
        self._followers = followers
        self._until = 0.0
        self._check_again_at = 0.0

    def until(self, now: float) -> float:
        """Return the time until which leadership is certain; a time in the past if it is not."""
        if now >= self._check_again_at:
            self._check_again_at = now + _VALID_SECONDS
            if self._possible_successors() <= self._followers(now - _SILENCE_SECONDS):
                self._until = self._check_again_at
        return self._until

    def _possible_successors(self) -> set[int]:
        """Return all brokers that could be elected for a partition led here, including pending ISR changes."""
        successors: set[int] = set()
        for partition in self._partitions():
            if partition.leading is not None:
                successors |= partition.leading.in_sync.maximal
        successors.discard(self._id)
        return successors
