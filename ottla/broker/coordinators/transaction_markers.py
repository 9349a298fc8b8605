"""Transaction markers: written to local and remote partitions, and applied to groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from ottla.cluster.partitions.delayed_operations import when_committed
from ottla.coordinator.groups.group_coordinator import GroupCoordinator
from ottla.coordinator.transactions.coordinator import Marker
from ottla.coordinator.transactions.transaction import TopicPartition
from ottla.metadata.topic_names import GROUP_METADATA_TOPIC
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.cluster.peers import Peers
    from ottla.cluster.replicas import Replicas
    from ottla.metadata.cluster_image import ClusterImage

_VERSION = 2
_COMMIT_MS = 5_000
_NO_LEADER = -1


class PartitionMarkers:
    """Writes markers to partitions and applies committed offsets. Owner: the event loop."""

    def __init__(
        self,
        replicas: Replicas,
        groups: GroupCoordinator,
        now_ms: Callable[[], int],
        broker_id: int,
        image: ClusterImage,
        peers: Peers,
    ) -> None:
        self._replicas = replicas
        self._groups = groups
        self._now_ms = now_ms
        self._broker_id = broker_id
        self._image = image
        self._peers = peers

    def write(
        self, marker: Marker, partitions: Sequence[TopicPartition]
    ) -> list[ErrorCode] | Awaitable[list[ErrorCode]]:
        by_leader: dict[int, list[TopicPartition]] = {}
        for name in partitions:
            known = self._image.partitions.get(name)
            leader = self._broker_id if known is None else known.leader
            by_leader.setdefault(leader, []).append(name)
        if list(by_leader) == [self._broker_id]:
            return self.write_here(marker, partitions)
        return self._write_everywhere(marker, partitions, by_leader)

    async def _write_everywhere(
        self,
        marker: Marker,
        partitions: Sequence[TopicPartition],
        by_leader: dict[int, list[TopicPartition]],
    ) -> list[ErrorCode]:
        found: dict[TopicPartition, ErrorCode] = {}
        answers = await asyncio.gather(
            *(self._write_at(leader, marker, names) for leader, names in by_leader.items())
        )
        for answer in answers:
            found |= answer
        return [found[name] for name in partitions]

    async def _write_at(
        self, leader: int, marker: Marker, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        if leader == self._broker_id:
            errors = self.write_here(marker, partitions)
            if not isinstance(errors, list):
                errors = await errors
            return dict(zip(partitions, errors, strict=True))
        if leader == _NO_LEADER:
            return dict.fromkeys(partitions, ErrorCode.LEADER_NOT_AVAILABLE)
        topics: dict[str, WritableTxnMarkerTopic] = {}
        for topic, index in partitions:
            topics.setdefault(topic, WritableTxnMarkerTopic(name=topic)).partition_indexes.append(index)
        asked = WritableTxnMarker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            transaction_result=marker.commit,
            topics=list(topics.values()),
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
        )
        found = dict.fromkeys(partitions, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            response = await self._peers.request(leader, WriteTxnMarkersRequest(markers=[asked]), _VERSION)
        except OSError:
            return found
        for result in response.markers:
            for answered in result.topics:
                for each in answered.partitions:
                    found[answered.name, each.partition_index] = ErrorCode(each.error_code)
        return found

    def write_here(
        self, marker: Marker, partitions: Sequence[TopicPartition]
    ) -> list[ErrorCode] | Awaitable[list[ErrorCode]]:
        """Write the marker to local partitions. Return an awaitable if other replicas have yet to fetch it."""
        results = [self._write_one(marker, topic, index) for topic, index in partitions]
        errors = [result for result in results if isinstance(result, ErrorCode)]
        return errors if len(errors) == len(results) else _all_of(results)

    def _write_one(self, marker: Marker, topic: str, index: int) -> ErrorCode | Awaitable[ErrorCode]:
        try:
            partition = self._replicas.leader(topic, index)
            if topic == GROUP_METADATA_TOPIC:
                self._groups.offsets.check_marker(index)
            partition.check_min_isr()
            info = partition.append_marker(
                marker.producer_id,
                marker.producer_epoch,
                commit=marker.commit,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
                now_ms=self._now_ms(),
            )
            pending = when_committed(partition, info.last_offset + 1, _COMMIT_MS)
        except KafkaError as error:
            return error.code
        if pending is not None:
            return self._when_committed(pending, marker, topic, index)
        self._apply(marker, topic, index)
        return ErrorCode.NONE

    async def _when_committed(
        self, pending: asyncio.Future[None], marker: Marker, topic: str, index: int
    ) -> ErrorCode:
        try:
            await pending
        except KafkaError as error:
            return error.code
        self._apply(marker, topic, index)
        return ErrorCode.NONE

    def _apply(self, marker: Marker, topic: str, index: int) -> None:
        if topic == GROUP_METADATA_TOPIC:
            self._groups.offsets.end_transaction(index, marker.producer_id, marker.commit)


async def _all_of(results: list[ErrorCode | Awaitable[ErrorCode]]) -> list[ErrorCode]:
    return [result if isinstance(result, ErrorCode) else await result for result in results]
