"""A client's view of a cluster: brokers, leaders, coordinators, one connection per broker, and retries."""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from ottla.client.connection import Connection
from ottla.client.coordinators import CoordinatorType, no_coordinator
from ottla.client.errors import (
    AdvertisedUnreachable,
    BadAddress,
    ClientError,
    Unreachable,
    check_accepted,
    error_code,
)
from ottla.client.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import is_internal
from ottla.protocol.messages.cluster import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

__all__ = ["Cluster", "CoordinatorType", "Node", "Topic", "TopicPartition", "shared_cluster"]

T = TypeVar("T")

_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_FIRST_WITH_MANY_KEYS = 4  # version of FindCoordinator


class Node(NamedTuple):
    """A broker in the cluster metadata or in a coordinator lookup."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    topic_id: bytes
    is_internal: bool
    leaders: dict[int, int]  # by partition; -1 without a leader

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, partition) for partition in sorted(self.leaders)]


class Cluster:
    """Connections and metadata, for use by one thread. Connections open on first use and stay open."""

    def __init__(self, settings: Settings, advice: str | None = None) -> None:
        """`advice` follows "is it running?" if no broker can be reached; by default the reason does."""
        if not settings.bootstrap:
            raise ClientError("bootstrap.servers must name at least one broker.")
        self.settings = settings
        self._advice = advice
        self._nodes: dict[int, Node] = {}
        self._nodes_are_current = False
        self._controller = -1
        self._connections: dict[tuple[str, int], Connection] = {}
        self._answered = ""  # address that led to the cluster
        self._topics: dict[str, Topic] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def drop_closed(self) -> None:
        """Forget connections that brokers have closed meanwhile: a request on them would fail."""
        self._connections = {where: held for where, held in self._connections.items() if held.check()}

    # Connections

    def connection(self, address: tuple[str, int]) -> Connection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            try:
                connection = self._connections[address] = Connection(self.settings, *address)
            except Unreachable as error:
                if address in self.settings.bootstrap:
                    raise
                # The address can only come from another broker.
                raise AdvertisedUnreachable(
                    address, self._broker_at(address), self._answered, error
                ) from None
        return connection

    def _broker_at(self, address: tuple[str, int]) -> int | None:
        return next((node.id for node in self._nodes.values() if node.address == address), None)

    def check_advertised(self) -> None:
        """Raises AdvertisedUnreachable if no broker can be reached at its advertised address.

        Producers and consumers connect there, and not to the bootstrap servers.
        """
        self.metadata(())
        addresses = [node.address for node in self._nodes.values()]
        if any(address in self._connections and self._connections[address].is_open for address in addresses):
            return
        failure: Unreachable | None = None
        for address in addresses:
            try:
                self.connection(address)
                return
            except Unreachable as error:
                failure = error
        if failure is not None:
            raise failure

    def any_connection(self) -> Connection:
        addresses = [address for address, held in self._connections.items() if held.is_open]
        addresses += [*(node.address for node in self._nodes.values()), *self.settings.bootstrap]
        failure: Unreachable | None = None
        for address in dict.fromkeys(addresses):
            try:
                connection = self.connection(address)
                connection.versions  # noqa: B018  whether it speaks Kafka at all
                self._answered = connection.where
                return connection
            except Unreachable as error:
                failure = error
        assert failure is not None
        if isinstance(failure, BadAddress):
            raise failure
        advice = self._advice or f"({failure.message.rstrip('.')})"
        raise Unreachable(f"Cannot reach a broker at {self.settings.servers}: is it running? {advice}")

    def node(self, node_id: int) -> Connection:
        node = self.nodes().get(node_id)
        if node is None:
            raise ClientError(f"There is no broker {node_id}.")
        return self.connection(node.address)

    def connections(self) -> list[Connection]:
        self.metadata(())
        return [self.connection(node.address) for node in self._nodes.values()]

    def controller(self) -> Connection:
        self.metadata(())
        node = self._nodes.get(self._controller)
        return self.any_connection() if node is None else self.connection(node.address)

    def leader(self, partition: TopicPartition) -> Connection:
        """Return a connection to the partition's leader, by the cached metadata."""
        topic = self._topics.get(partition.topic)
        if topic is None:
            topic = self.topics([partition.topic]).get(partition.topic)
        leader = None if topic is None else topic.leaders.get(partition.partition)
        if leader is None:
            raise ClientError(f"Partition {partition} does not exist.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if leader not in self._nodes:
            raise ClientError(f"Partition {partition} has no leader.", ErrorCode.LEADER_NOT_AVAILABLE)
        return self.connection(self._nodes[leader].address)

    def coordinators(self, kind: CoordinatorType, keys: Iterable[str]) -> dict[str, Node]:
        """Return the coordinators of groups or transactional ids. Raises ClientError if one is missing, with a likely
        reason.
        """
        try:
            return self._find_coordinators(kind, list(keys))
        except _NoCoordinator as error:
            topics = self.metadata([kind.topic]).topics
            raise no_coordinator(kind, error.key, topics) or error from None

    def _find_coordinators(self, kind: CoordinatorType, wanted: list[str]) -> dict[str, Node]:
        connection = self.any_connection()
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=wanted)
        if connection.version(request) >= _FIRST_WITH_MANY_KEYS:
            answer = connection.request(request, FindCoordinatorResponse)
            return {found.key: _coordinator(kind, found.key, found) for found in answer.coordinators}
        return {
            key: _coordinator(
                kind,
                key,
                connection.request(FindCoordinatorRequest(key=key, key_type=kind), FindCoordinatorResponse),
            )
            for key in wanted
        }

    def topic_id(self, topic: str) -> bytes:
        return self._topics[topic].topic_id

    def forget(self, topic: str) -> None:
        """Drop the cached metadata of a topic."""
        self._topics.pop(topic, None)

    # Metadata

    def nodes(self) -> dict[int, Node]:
        """Brokers by id, from the cached metadata."""
        if not self._nodes_are_current:
            self.metadata(())
        return self._nodes

    def forget_nodes(self) -> None:
        """Drop the cached brokers, because some may have come or gone."""
        self._nodes_are_current = False

    def metadata(self, topics: Iterable[str] | None, *, create: bool = False) -> MetadataResponse:
        """Fetch metadata of these topics, or of all. `create` allows the broker to create missing topics."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        answer = self.any_connection().request(request, MetadataResponse)
        nodes = [Node(each.node_id, each.host, each.port, each.rack) for each in answer.brokers]
        self._nodes = {node.id: node for node in sorted(nodes, key=lambda node: node.id)}
        self._nodes_are_current = True
        self._controller = answer.controller_id
        return answer

    def topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        """Return these topics, or all. Missing topics are omitted."""
        answer = self.metadata(names)
        found: dict[str, Topic] = {}
        for topic in answer.topics:
            name = topic.name or ""
            code = error_code(topic.error_code)
            if code in _GONE:
                self.forget(name)
            elif code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise ClientError(f"Not authorized to read topic '{name}'.", code)
            elif code != ErrorCode.NONE:
                raise ClientError(f"The broker cannot describe topic '{name}': {code.name}.", code)
            else:
                leaders = {part.partition_index: part.leader_id for part in topic.partitions}
                found[name] = Topic(name, topic.topic_id, topic.is_internal or is_internal(name), leaders)
        self._topics.update(found)
        return found

    def look_up(self, names: Iterable[str]) -> None:
        """Fetch the metadata of uncached topics in one request."""
        unknown = [name for name in names if name not in self._topics]
        if unknown:
            self.topics(unknown)

    # Retries

    def retrying(self, call: Callable[[], T], topics: Iterable[str] = (), seconds: float | None = None) -> T:
        """Return the result of `call`. After a retriable failure, refresh the metadata of `topics` and retry."""
        deadline = time.monotonic() + (self.settings.api_timeout if seconds is None else seconds)
        while True:
            try:
                return call()
            except ClientError as error:
                if not error.is_retriable or time.monotonic() + self.settings.retry_backoff > deadline:
                    raise
            for topic in topics:
                self.forget(topic)
            time.sleep(self.settings.retry_backoff)


class _NoCoordinator(ClientError):
    def __init__(self, key: str, error: ClientError) -> None:
        super().__init__(error.message, error.code, error.broker_message)
        self.key = key


def _coordinator(kind: CoordinatorType, key: str, found: Coordinator | FindCoordinatorResponse) -> Node:
    try:
        check_accepted(f"The coordinator of {kind.of_what} '{key}'", found)
    except ClientError as error:
        if error.code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            raise _NoCoordinator(key, error) from None
        raise
    return Node(found.node_id, found.host, found.port)


_clusters: dict[tuple[int, Settings], Cluster] = {}


@contextmanager
def shared_cluster(settings: Settings) -> Iterator[Cluster]:
    """Yield a cluster for these settings. Its connections stay open for later callers until the process ends.

    Forked processes open their own.
    """
    key = (os.getpid(), settings)
    cluster = _clusters.pop(key, None) or Cluster(settings)
    cluster.drop_closed()
    try:
        yield cluster
    finally:
        # Removed while in use, so that two threads never share one. The last one returned is kept.
        previous = _clusters.get(key)
        _clusters[key] = cluster
        if previous is not None:
            previous.close()


@atexit.register
def _close_shared() -> None:
    for (process, _), cluster in _clusters.items():
        if process == os.getpid():
            cluster.close()
