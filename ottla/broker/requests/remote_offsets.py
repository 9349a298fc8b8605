"""End offsets of partitions, requested from their leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.metadata.cluster_image import NO_LEADER
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_VERSION = 10
_CONSUMER = -1
_LATEST = -1
_TIMEOUT_MS = 5_000


async def end_offsets(broker: Broker, topic: str, indexes: Iterable[int]) -> dict[int, int | KafkaError]:
    """Return the high watermark of each partition, or an error."""
    image = broker.image.topics.get(topic)
    by_leader: dict[int, list[int]] = {}
    for index in indexes:
        known = None if image is None else image.partitions.get(index)
        by_leader.setdefault(NO_LEADER if known is None else known.leader, []).append(index)
    found: dict[int, int | KafkaError] = {}
    for answer in await asyncio.gather(
        *(_ends_at(broker, leader, topic, some) for leader, some in by_leader.items())
    ):
        found |= answer
    return found


async def _ends_at(
    broker: Broker, leader: int, topic: str, indexes: list[int]
) -> dict[int, int | KafkaError]:
    if leader == broker.node_id:
        return {index: _end_here(broker, topic, index) for index in indexes}
    found: dict[int, int | KafkaError] = dict.fromkeys(indexes, KafkaError(ErrorCode.LEADER_NOT_AVAILABLE))
    if leader == NO_LEADER:
        return found
    asked = ListOffsetsTopic(
        name=topic,
        partitions=[ListOffsetsPartition(partition_index=index, timestamp=_LATEST) for index in indexes],
    )
    request = ListOffsetsRequest(replica_id=_CONSUMER, topics=[asked], timeout_ms=_TIMEOUT_MS)
    try:
        response = await broker.peers.request(leader, request, _VERSION)
    except OSError:
        return found
    for answered in response.topics:
        for each in answered.partitions:
            found[each.partition_index] = (
                KafkaError(ErrorCode(each.error_code)) if each.error_code else each.offset
            )
    return found


def _end_here(broker: Broker, topic: str, index: int) -> int | KafkaError:
    try:
        return broker.replicas.leader(topic, index).high_watermark
    except KafkaError as error:
        return error
