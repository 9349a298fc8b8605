"""Who leads a partition, for clients that asked the wrong broker (KIP-951): it saves them a metadata request."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker, Node
    from ottla.protocol.codec import Struct

StructT = TypeVar("StructT", bound="Struct")

_HINTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class LeaderHints:
    """The leaders that one response names, and their addresses."""

    __slots__ = ("_broker", "_listener", "_nodes")

    def __init__(self, broker: Broker, listener: str) -> None:
        self._broker = broker
        self._listener = listener
        self._nodes: dict[int, Node] = {}

    def leader(self, of: type[StructT], topic: str | bytes, index: int, error: int) -> StructT | None:
        """What to name with this error, as the response's own LeaderIdAndEpoch.

        None for other errors, and if the client could not connect to that leader.
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
        """Where the leaders that were named are, as the response's own NodeEndpoint."""
        return [
            of(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in self._nodes.values()
        ]
