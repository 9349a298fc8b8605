"""Current leaders for clients that asked the wrong broker (KIP-951), which saves a metadata request."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker, Node
    from ottla.protocol.codec import Struct

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
