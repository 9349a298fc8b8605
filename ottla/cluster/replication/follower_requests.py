"""Requests from a follower to its leader."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.cluster.partitions.partition import Partition
from ottla.cluster.peer import PeerConnection
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

FETCH_VERSION = 17
_LIST_OFFSETS_VERSION = 9
_LATEST, _EARLIEST = -1, -2

Key = tuple[bytes, int]  # topic id and partition


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
    start = await _ask_offset(peer, broker_id, partition, _EARLIEST)
    return start, await _ask_offset(peer, broker_id, partition, _LATEST)


async def _ask_offset(peer: PeerConnection, broker_id: int, partition: Partition, timestamp: int) -> int:
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
    offset: int = answer.offset
    return offset
