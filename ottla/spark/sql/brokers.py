"""The cluster behind the statements: topics, single records, what is in a topic. By confluent-kafka, without Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.spark.sql.errors import SqlError
from ottla.spark.sql.sources import TopicShape

T = TypeVar("T")

TIMEOUT = 10.0


@dataclass(frozen=True)
class TopicFacts:
    name: str
    partitions: int
    replicas: int


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
        self._admin: Any = None
        self._producer: Any = None

    def read_options(self) -> dict[str, str]:
        """For `format("ottla")`. What a transaction wrote is read when it is committed."""
        return {**self.write_options(), "kafka.isolation.level": "read_committed"}

    def write_options(self) -> dict[str, str]:
        named = {f"kafka.{name}": value for name, value in self.properties.items()}
        return {**named, "kafka.bootstrap.servers": self.bootstrap_servers}

    def config(self, **extra: Any) -> dict[str, Any]:
        # librdkafka prints its log on stderr unless it is given a logger.
        logger = logging.getLogger("ottla.spark.sql.librdkafka")
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

    @property
    def admin(self) -> Any:
        if self._admin is None:
            self._admin = _admin_class("AdminClient")(self.config())
        return self._admin

    # Topics

    def cluster_id(self) -> str:
        return str(self._call(lambda: self.admin.list_topics(timeout=TIMEOUT)).cluster_id or "cluster")

    def topics(self) -> list[TopicFacts]:
        found = self._call(lambda: self.admin.list_topics(timeout=TIMEOUT)).topics.values()
        return sorted(
            (
                TopicFacts(
                    topic.topic,
                    len(topic.partitions),
                    len(topic.partitions[0].replicas) if topic.partitions else 0,
                )
                for topic in found
            ),
            key=lambda topic: topic.name,
        )

    def topic(self, name: str) -> TopicFacts | None:
        return next((topic for topic in self.topics() if topic.name == name), None)

    def create_topic(self, name: str, shape: TopicShape, config: Mapping[str, str] | None = None) -> None:
        """Does nothing if it exists."""
        topic = _admin_class("NewTopic")(
            name,
            num_partitions=shape.partitions or -1,
            replication_factor=shape.replicas or -1,
            config=dict(config or {}),
        )
        [future] = self.admin.create_topics([topic], request_timeout=TIMEOUT).values()
        self._call(future.result, unless=("TOPIC_ALREADY_EXISTS",))
        deadline = time.monotonic() + TIMEOUT
        while self.topic(name) is None and time.monotonic() < deadline:
            time.sleep(0.02)  # until every broker knows of it

    def delete_topic(self, name: str) -> None:
        [future] = self.admin.delete_topics([name], request_timeout=TIMEOUT).values()
        self._call(future.result, unless=("UNKNOWN_TOPIC_OR_PART",))

    def end_offset(self, topic: str) -> int:
        """Of the first partition."""
        from confluent_kafka import Consumer

        consumer: Any = Consumer(self.config(**{"group.id": "ottla-sql"}))
        with closing(consumer):
            return self._watermarks(consumer, topic, 0)[1]

    def _watermarks(self, consumer: Any, topic: str, partition: int) -> tuple[int, int]:
        from confluent_kafka import TopicPartition

        place = TopicPartition(topic, partition)
        low, high = self._call(lambda: consumer.get_watermark_offsets(place, timeout=TIMEOUT))
        return int(low), int(high)

    # Records

    def produce(self, topic: str, records: Sequence[tuple[bytes | None, bytes | None, int | None]]) -> None:
        """Keys, values and timestamps; returns when all of them are acknowledged."""
        from confluent_kafka import Producer

        if self._producer is None:
            self._producer = self._call(
                lambda: Producer(self.config(partitioner="murmur2_random", **{"message.timeout.ms": 10_000}))
            )
        failures: list[Any] = []

        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                failures.append(error)

        for key, value, timestamp in records:
            extra = {} if timestamp is None else {"timestamp": timestamp}
            self._producer.produce(topic, value=value, key=key, on_delivery=delivered, **extra)
        self._producer.flush(TIMEOUT + 5)
        if failures:
            raise SqlError(f"The record was not written to '{topic}': {failures[0].str()}.")

    def read(
        self, topic: str, *, from_beginning: bool, follow: bool, stop: Callable[[], bool] | None = None
    ) -> Iterator[Received]:
        """The records of a topic; unless `follow`, up to what is there now."""
        from confluent_kafka import Consumer, TopicPartition

        facts = self.topic(topic)
        if facts is None:
            raise SqlError(f"Topic '{topic}' does not exist.")
        consumer: Any = Consumer(
            self.config(
                **{
                    "group.id": "ottla-sql",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "isolation.level": "read_committed",
                    "fetch.wait.max.ms": 100,
                    "enable.partition.eof": True,
                }
            )
        )
        with closing(consumer):
            ends: dict[int, int] = {}
            places = []
            for partition in range(facts.partitions):
                low, high = self._watermarks(consumer, topic, partition)
                ends[partition] = high
                places.append(TopicPartition(topic, partition, low if from_beginning else high))
                if low == high:
                    ends.pop(partition)
            if not follow and not ends:
                return
            consumer.assign(places)
            while (follow or ends) and not (stop is not None and stop()):
                message = consumer.poll(0.1)
                if message is None:
                    continue
                if message.error() is not None:
                    if message.error().name() == "_PARTITION_EOF":
                        # Also past markers of transactions, which are no records.
                        ends.pop(message.partition(), None)
                        continue
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

    def _call(self, call: Callable[[], T], unless: tuple[str, ...] = ()) -> T | Any:
        from confluent_kafka import KafkaException

        try:
            return call()
        except KafkaException as failure:
            error = failure.args[0]
            if error.name() in unless:
                return None
            if error.name() in ("_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE"):
                raise SqlError(f"Cannot reach a broker at {self.bootstrap_servers}: is it running?") from None
            raise SqlError(f"{error.str().removeprefix('Broker: ').rstrip('.')}.") from None


def _admin_class(name: str) -> Any:
    """The library is typed, but does not say that it exports these."""
    import confluent_kafka.admin

    return getattr(confluent_kafka.admin, name)
