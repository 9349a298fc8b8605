"""The brokers of a cluster over plain connections, for what confluent-kafka does not offer or does not tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ottla.cli.errors import BrokerUnreachable, JobError
from ottla.cli.wire import Connection

if TYPE_CHECKING:
    from ottla.cli.client import Client
    from ottla.protocol.codec import Request, Response
    from ottla.protocol.messages.cluster import MetadataResponse

R = TypeVar("R", bound="Response")


@dataclass(frozen=True, slots=True)
class Node:
    id: int
    host: str
    port: int
    rack: str | None


class Brokers:
    """Connections are opened when first needed and kept until the process ends."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._bootstrap: Connection | None = None
        self._connections: dict[int, Connection] = {}
        self._nodes: dict[int, Node] | None = None
        self._controller = -1

    def any(self) -> Connection:
        """The first bootstrap server that answers."""
        if self._bootstrap is None:
            failure: JobError | None = None
            for server in self._client.bootstrap_servers.split(","):
                host, _, port = server.rpartition(":")
                try:
                    connection = Connection(self._client, host.strip("[]"), int(port))
                    connection.versions  # noqa: B018  whether it speaks Kafka at all
                    self._bootstrap = connection
                    break
                except BrokerUnreachable as error:
                    failure = error
            else:
                if failure is None or failure.message.startswith(("Cannot reach the", "Lost the")):
                    failure = self._client.unreachable()
                raise failure
        return self._bootstrap

    def forget(self) -> None:
        """Who leads or is there may have changed: connect anew when next asked."""
        for connection in (self._bootstrap, *self._connections.values()):
            if connection is not None:
                connection.close()
        self._bootstrap, self._nodes, self._controller = None, None, -1
        self._connections.clear()

    def nodes(self) -> dict[int, Node]:
        if self._nodes is None:
            self.metadata([])
        assert self._nodes is not None
        return self._nodes

    def metadata(self, topics: list[str] | None, *, create: bool = False) -> MetadataResponse:
        """None for all topics. Nothing is created by asking unless `create` says so."""
        from ottla.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic, MetadataResponse

        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        answer = self.any().request(
            MetadataRequest(topics=asked, allow_auto_topic_creation=create), MetadataResponse
        )
        self._nodes = {
            broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in sorted(answer.brokers, key=lambda broker: int(broker.node_id))
        }
        self._controller = answer.controller_id
        return answer

    def node(self, node_id: int) -> Connection:
        if node_id not in self._connections:
            node = self.nodes().get(node_id)
            if node is None:
                raise JobError(f"There is no broker {node_id}.")
            self._connections[node_id] = Connection(self._client, node.host, node.port)
        return self._connections[node_id]

    def controller(self) -> Connection:
        self.nodes()
        return self.node(self._controller) if self._controller >= 0 else self.any()

    def request(self, request: Request, response_type: type[R]) -> R:
        """To any broker."""
        return self.any().request(request, response_type)
