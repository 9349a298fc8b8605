"""A cluster as a client sees it: brokers, leaders, one connection to each, and another try where one helps."""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from ottla.client.connection import Connection
from ottla.client.errors import ClientError, Unreachable, error_code
from ottla.client.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic, MetadataResponse

T = TypeVar("T")

_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


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
    leaders: dict[int, int]  # by partition; -1 where there is none

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, partition) for partition in sorted(self.leaders)]


class Cluster:
    """Used by one thread. Connections are opened when first needed and kept."""

    def __init__(self, settings: Settings) -> None:
        if not settings.bootstrap:
            raise ClientError("bootstrap.servers must name at least one broker.")
        self.settings = settings
        self._brokers: dict[int, tuple[str, int]] = {}
        self._controller = -1
        self._connections: dict[tuple[str, int], Connection] = {}
        self._topics: dict[str, Topic] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # Connections

    def connection(self, address: tuple[str, int]) -> Connection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            connection = self._connections[address] = Connection(self.settings, *address)
        return connection

    def any_connection(self) -> Connection:
        """To whichever broker answers; those that are connected come first."""
        addresses = [address for address, held in self._connections.items() if held.is_open]
        addresses += [*self._brokers.values(), *self.settings.bootstrap]
        failure: Unreachable | None = None
        for address in dict.fromkeys(addresses):
            try:
                return self.connection(address)
            except Unreachable as error:
                failure = error
        assert failure is not None
        raise Unreachable(
            f"Cannot reach a broker at {self.settings.servers}: is it running? ({failure.message.rstrip('.')})"
        )

    def connections(self) -> list[Connection]:
        """To every broker that there is."""
        self.topics(())
        return [self.connection(address) for address in self._brokers.values()]

    def controller(self) -> Connection:
        """Or any broker, if none says that it is the one."""
        self.topics(())
        address = self._brokers.get(self._controller)
        return self.any_connection() if address is None else self.connection(address)

    def leader(self, partition: TopicPartition) -> Connection:
        """To the leader of a partition, as far as it is known."""
        topic = self._topics.get(partition.topic)
        if topic is None:
            topic = self.topics([partition.topic]).get(partition.topic)
        leader = None if topic is None else topic.leaders.get(partition.partition)
        if leader is None:
            raise ClientError(f"Partition {partition} does not exist.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if leader not in self._brokers:
            raise ClientError(f"Partition {partition} has no leader.", ErrorCode.LEADER_NOT_AVAILABLE)
        return self.connection(self._brokers[leader])

    def topic_id(self, topic: str) -> bytes:
        """All zeros if the broker knows of no topic ids."""
        return self._topics[topic].topic_id

    def forget(self, topic: str) -> None:
        """What is known of a topic is no longer so."""
        self._topics.pop(topic, None)

    # Metadata

    def topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        """These topics, or all of them. One that does not exist is left out."""
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        answer = self.any_connection().request(request, MetadataResponse)
        self._brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self._controller = answer.controller_id
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
                found[name] = Topic(name, topic.topic_id, topic.is_internal, leaders)
        self._topics.update(found)
        return found

    # Retries

    def retrying(self, call: Callable[[], T], topics: Iterable[str] = (), seconds: float | None = None) -> T:
        """`call`, again and again while its failure may pass; before each try leaders are looked up anew."""
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


_clusters: dict[tuple[int, Settings], Cluster] = {}


@contextmanager
def shared_cluster(settings: Settings) -> Iterator[Cluster]:
    """The cluster of these settings, with connections that outlive the call, for as long as the process lives.

    Processes that were forked off open their own.
    """
    key = (os.getpid(), settings)
    cluster = _clusters.pop(key, None) or Cluster(settings)
    try:
        yield cluster
    finally:
        # Taken out while in use, so that two threads never share one; the last to come back stays.
        previous = _clusters.get(key)
        _clusters[key] = cluster
        if previous is not None:
            previous.close()


@atexit.register
def _close_shared() -> None:
    for (process, _), cluster in _clusters.items():
        if process == os.getpid():
            cluster.close()
