"""Access to the cluster without Spark: topics, offsets and records.

`ottla.client` handles topics and offsets, and confluent-kafka reads and writes records.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from ottla.client.admin.topics import TopicListing, create_topic, delete_topics, list_topics
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError, Unreachable
from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED, list_offsets
from ottla.client.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.spark.sink.exactly_once.commit_topic_removal import remove_commit_topics
from ottla.sql.errors import SqlError
from ottla.sql.sources import TopicShape

TIMEOUT = 10.0

_PRODUCER = {"partitioner": "murmur2_random", "message.timeout.ms": 10_000}
_CONSUMER = {
    "group.id": "ottla-sql",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 100,
    "enable.partition.eof": True,
}


@dataclass(frozen=True)
class Received:
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class Brokers:
    def __init__(self, bootstrap_servers: str, properties: Mapping[str, str] | None = None) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.properties = dict(properties or {})
        self._producer: Any = None
        self._idle: list[Cluster] = []
        weakref.finalize(self, _close, self._idle)

    def read_options(self) -> dict[str, str]:
        """Return options for `format("ottla")`. Only committed records are read."""
        return {**self.write_options(), "kafka.isolation.level": "read_committed"}

    def write_options(self) -> dict[str, str]:
        named = {f"kafka.{name}": value for name, value in self.properties.items()}
        return {**named, "kafka.bootstrap.servers": self.bootstrap_servers}

    def config(self, extra: Mapping[str, Any]) -> dict[str, Any]:
        # Without a logger, librdkafka logs to stderr.
        logger = logging.getLogger("ottla.sql.librdkafka")
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
            logger.propagate = False
        return {
            "client.id": "ottla-sql",
            **self.properties,
            "bootstrap.servers": self.bootstrap_servers,
            **extra,
            "logger": logger,
        }

    @contextmanager
    def _cluster(self) -> Iterator[Cluster]:
        """Provide a connection for one statement. Connections are reused, but never shared between threads."""
        try:
            cluster = self._connected()
            try:
                yield cluster
            except BaseException:
                cluster.close()
                raise
            self._idle.append(cluster)
        except Unreachable:
            raise SqlError(f"Cannot reach a broker at {self.bootstrap_servers}: is it running?") from None
        except ClientError as error:
            raise SqlError(error.message) from None

    def _connected(self) -> Cluster:
        while self._idle:
            cluster = self._idle.pop()
            try:
                cluster.metadata(())
                return cluster
            except ClientError:
                cluster.close()  # brokers close idle connections or restart
        milliseconds = str(round(TIMEOUT * 1000))
        properties = {
            **self.properties,
            "bootstrap.servers": self.bootstrap_servers,
            "request.timeout.ms": milliseconds,
            "default.api.timeout.ms": milliseconds,
        }
        return Cluster(Settings.from_properties(properties, client_id="ottla-sql"))

    def close(self) -> None:
        _close(self._idle)

    # Topics

    def cluster_id(self) -> str:
        with self._cluster() as cluster:
            return cluster.metadata(()).cluster_id or "cluster"

    def topics(self) -> list[TopicListing]:
        with self._cluster() as cluster:
            return list_topics(cluster, include_internal=True)

    def topic(self, name: str) -> TopicListing | None:
        return next((topic for topic in self.topics() if topic.name == name), None)

    def existing(self, names: Iterable[str]) -> set[str]:
        with self._cluster() as cluster:
            return set(cluster.topics(names))

    def mark(self, topic: str) -> tuple[bytes, int] | None:
        """Return a value that changes with the first partition of the topic, or None if the topic does not exist."""
        with self._cluster() as cluster:
            found = cluster.topics([topic]).get(topic)
            if found is None:
                return None
            first = TopicPartition(topic, 0)
            return found.topic_id, list_offsets(cluster, {first: LATEST}, READ_COMMITTED)[first].offset

    def create_topic(self, name: str, shape: TopicShape, config: Mapping[str, str]) -> None:
        """Create the topic if it does not exist."""
        with self._cluster() as cluster:
            try:
                create_topic(
                    cluster,
                    name,
                    partitions=shape.partitions or None,
                    replication_factor=shape.replicas,
                    configs=config,
                )
            except ClientError as error:
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
        deadline = time.monotonic() + TIMEOUT
        while self.topic(name) is None and time.monotonic() < deadline:
            time.sleep(0.02)  # until every broker knows the topic

    def delete_topic(self, name: str) -> None:
        """Delete the topic if it exists."""
        with self._cluster() as cluster:
            try:
                delete_topics(cluster, [name])
            except ClientError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise

    def remove_commit_topics(self, queries: Iterable[str]) -> None:
        """Remove the commit topics of Spark queries whose checkpoints are gone."""
        with self._cluster() as cluster:
            remove_commit_topics(cluster, queries)

    def end_offset(self, topic: str) -> int:
        """Return the last stable offset of the first partition."""
        with self._cluster() as cluster:
            first = TopicPartition(topic, 0)
            return list_offsets(cluster, {first: LATEST}, READ_COMMITTED)[first].offset

    def _ranges(self, topic: str, partitions: int) -> dict[int, tuple[int, int]]:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        with self._cluster() as cluster:
            starts = list_offsets(cluster, dict.fromkeys(places, EARLIEST), READ_COMMITTED)
            ends = list_offsets(cluster, dict.fromkeys(places, LATEST), READ_COMMITTED)
        return {place.partition: (starts[place].offset, ends[place].offset) for place in places}

    # Records

    def produce(self, topic: str, records: Sequence[tuple[bytes | None, bytes | None, int | None]]) -> None:
        """Write keys, values and timestamps. Return once all records are acknowledged."""
        from confluent_kafka import KafkaException, Producer

        if self._producer is None:
            try:
                self._producer = Producer(self.config(_PRODUCER))
            except KafkaException as failure:
                raise SqlError(f"{failure.args[0].str().rstrip('.')}.") from None
        failures: list[Any] = []

        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                failures.append(error)

        for key, value, timestamp in records:
            time_of = {} if timestamp is None else {"timestamp": timestamp}
            self._producer.produce(topic, value=value, key=key, on_delivery=delivered, **time_of)
        self._producer.flush(TIMEOUT + 5)
        if failures:
            raise SqlError(f"The record was not written to '{topic}': {failures[0].str()}.")

    def read(
        self,
        topic: str,
        *,
        from_beginning: bool,
        follow: bool,
        interrupted: threading.Event | None = None,
    ) -> Iterator[Received]:
        """Yield the records of a topic.

        Stop at the current end unless `follow` is set, or when another thread interrupts.
        """
        from confluent_kafka import Consumer
        from confluent_kafka import TopicPartition as Place

        listing = self.topic(topic)
        if listing is None:
            raise SqlError(f"Topic '{topic}' does not exist.")
        consumer: Any = Consumer(self.config(_CONSUMER))
        with closing(consumer):
            ranges = self._ranges(topic, listing.partitions)
            ends = {partition: end for partition, (start, end) in ranges.items() if start < end}
            if not follow and not ends:
                return
            starts = {number: start if from_beginning else end for number, (start, end) in ranges.items()}
            consumer.assign([Place(topic, partition, offset) for partition, offset in starts.items()])
            while (follow or ends) and not (interrupted is not None and interrupted.is_set()):
                message = consumer.poll(0.1)
                if message is None:
                    continue
                if message.error() is not None:
                    if message.error().name() == "_PARTITION_EOF":
                        # This event also covers transaction markers, which are not delivered.
                        ends.pop(message.partition(), None)
                        continue
                    if message.error().name() == "GROUP_AUTHORIZATION_FAILED":
                        continue  # librdkafka looks for a coordinator even though nothing is committed
                    raise SqlError(f"Topic '{topic}' cannot be read: {message.error().str()}.")
                yield Received(
                    message.partition(),
                    message.offset(),
                    message.timestamp()[1],
                    message.key(),
                    message.value(),
                )
                if message.offset() + 1 >= ends.get(message.partition(), message.offset() + 2):
                    ends.pop(message.partition(), None)


def _close(clusters: list[Cluster]) -> None:
    while clusters:
        clusters.pop().close()
