"""Leaders of partitions: hints for clients that asked the wrong broker, and end offsets requested from them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from ottla.metadata.cluster_image import NO_LEADER
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

if TYPE_CHECKING:
    from ottla.broker.broker import Broker, Node
    from ottla.protocol.codec import Struct

# Current leaders for clients that asked the wrong broker (KIP-951), which saves a metadata request.

StructT = TypeVar("StructT", bound="Struct")

_HINTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class LeaderHints:
    """Leaders named in one response, with their addresses."""

    __slots__ = ("_broker", "_listener", "_nodes")

    def __init__(self, broker: Broker, listener: str) -> None:
        self._broker = broker
        self._listener = listener
        self._nodes: dict[int, Node] = {}

    def leader(self, of: type[StructT], topic: str | bytes, index: int, error: int) -> StructT | None:
        """Return the leader to name with this error, as the response's own LeaderIdAndEpoch.

        Return None for other errors, and for leaders that the client could not connect to.
        """
        if error not in _HINTED:
            return None
        image = self._broker.image
        known = image.topics.get(topic) if isinstance(topic, str) else image.topics_by_id.get(topic)
        partition = None if known is None else known.partitions.get(index)
        if partition is None or partition.leader in (-1, self._broker.node_id):
            return None
        node = self._nodes.get(partition.leader) or self._broker.node(partition.leader, self._listener)
        if node is None:
            return None
        self._nodes[partition.leader] = node
        return of(leader_id=partition.leader, leader_epoch=partition.leader_epoch)

    def endpoints(self, of: type[StructT]) -> list[StructT]:
        """Return the addresses of the named leaders, as the response's own NodeEndpoint."""
        return [
            of(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in self._nodes.values()
        ]


# End offsets of partitions, requested from their leaders.

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
