"""A producer that records acknowledgements with their times, and a reader that checks for losses."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

import confluent_kafka

from ottla.testing import Cluster

# By default librdkafka backs off for up to ten seconds from a broker that was down several times.
SOON_BACK = {"reconnect.backoff.max.ms": 500}


class Load:
    """Sends numbered records with acks=all in its own thread, in order, until stopped."""

    def __init__(
        self,
        servers: str,
        topic: str,
        partition: int = 0,
        *,
        per_second: int = 500,
        record_size: int = 0,
        **settings: Any,
    ) -> None:
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                **SOON_BACK,
                **settings,
            }
        )
        self._topic = topic
        self.partition = partition
        self._record_size = record_size  # a minimum
        self._pause = 1 / per_second
        self.acknowledged: list[int] = []
        self.times: list[float] = []
        self.failed: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            self._producer.produce(
                self._topic,
                str(number).encode().ljust(self._record_size),
                partition=self.partition,
                on_delivery=self._delivered(number),
            )
            number += 1
            self._producer.poll(0)
            time.sleep(self._pause)
        self._producer.flush(60)

    def _delivered(self, number: int) -> Any:
        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self.failed.append(str(error))
            else:
                self.acknowledged.append(number)
                self.times.append(time.monotonic())

        return delivered

    def wait_for(self, more: int, seconds: float = 60) -> None:
        """Wait until this many more records are acknowledged."""
        deadline, wanted = time.monotonic() + seconds, len(self.acknowledged) + more
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline, f"{len(self.acknowledged)} of {wanted} are acknowledged"
            time.sleep(0.01)

    def longest_gap(self, since: float = 0.0) -> float:
        """Return the longest gap between two acknowledgements, the second of which came after `since`."""
        return max((b - a for a, b in pairwise(self.times) if b >= since), default=0.0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop, and wait for the acknowledgement of all records."""
        self._stopping.set()
        self._thread.join()


def read_all(servers: str, topic: str, seconds: float = 60, *, partition: int = 0) -> list[int]:
    """Return the numbers in a partition, up to its current end."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False}
    )
    try:
        place = confluent_kafka.TopicPartition(topic, partition, 0)
        consumer.assign([place])
        position, deadline = 0, time.monotonic() + seconds
        end = end_offset(consumer, place, deadline)
        found: list[int] = []
        while position < end:
            assert time.monotonic() < deadline, f"read {position} of {end}"
            for message in consumer.consume(1000, timeout=0.5):
                assert message.error() is None, message.error()
                found.append(int(message.value()))
                position = message.offset() + 1
        return found
    finally:
        consumer.close()


_MOVING = (
    confluent_kafka.KafkaError.NOT_LEADER_FOR_PARTITION,
    confluent_kafka.KafkaError.LEADER_NOT_AVAILABLE,
    confluent_kafka.KafkaError.OFFSET_NOT_AVAILABLE,
    confluent_kafka.KafkaError._TIMED_OUT,
    confluent_kafka.KafkaError._UNKNOWN_PARTITION,  # a freshly started broker does not know the topic yet
    confluent_kafka.KafkaError.KAFKA_STORAGE_ERROR,
)


def end_offset(
    consumer: confluent_kafka.Consumer, partition: confluent_kafka.TopicPartition, deadline: float
) -> int:
    """Return the end offset, retrying while a broker does not know the leader. This client call tries only once, and
    waits for a leader that is down.
    """
    while True:
        try:
            _, end = consumer.get_watermark_offsets(partition, timeout=5)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() not in _MOVING or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return int(end)


def report(what: str, load: Load, since: float) -> None:
    print(f"\n{what}: the longest gap between acknowledgements was {load.longest_gap(since):.3f} s")


def check_nothing_lost(cluster: Cluster, topic: str, load: Load) -> None:
    """Check that every acknowledged record exists, once and in order."""
    assert load.failed == []
    found = read_all(cluster.bootstrap_servers, topic, partition=load.partition)
    assert found == sorted(set(found)), "something was doubled or reordered"
    assert set(load.acknowledged) <= set(found), "something was lost"
