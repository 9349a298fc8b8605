"""Share consumers in threads, with a log of every event per record."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

from confluent_kafka import AcknowledgeType, KafkaException, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from ottla.testing import Cluster
from tests.cluster.load import SOON_BACK


class Delivery(NamedTuple):
    value: bytes
    count: int
    polled: float  # start of the poll that returned it


def begin_at_the_beginning(cluster: Cluster, group: str) -> None:
    configure_group(cluster, group, {"share.auto.offset.reset": "earliest"})


def configure_group(cluster: Cluster, group: str, values: Mapping[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in values.items()
    ]
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()


def share_consumer(cluster: Cluster, topic: str, group: str, *, explicit: bool) -> ShareConsumer:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "log_level": 2,
            **SOON_BACK,
            "group.id": group,
            "share.acknowledgement.mode": "explicit" if explicit else "implicit",
        }
    )
    consumer.subscribe([topic])
    return consumer


def poll(consumer: ShareConsumer, timeout: float) -> list[Message]:
    return [message for message in consumer.poll(timeout) if message.error() is None]


def commit(consumer: ShareConsumer) -> set[tuple[str, int]]:
    """Return the partitions whose acknowledgements the broker has confirmed."""
    try:
        answered = consumer.commit_sync(60) or {}
    except KafkaException:
        return set()
    return {(where.topic, where.partition) for where, error in answered.items() if error is None}


def accept_all(_value: bytes) -> AcknowledgeType:
    return AcknowledgeType.ACCEPT


class Workers:
    """Workers accept every record, or decide by its value; `accepted` has the time of the broker's confirmation."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        group: str,
        count: int,
        fate: Callable[[bytes], AcknowledgeType] = accept_all,
    ) -> None:
        self._fate = fate
        self._cluster = cluster
        self._topic = topic
        self._group = group
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self.deliveries: list[Delivery] = []
        self.accepted: dict[bytes, float] = {}
        self.accepted_again: Counter[bytes] = Counter()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(count)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(90)

    def _work(self) -> None:
        consumer = share_consumer(self._cluster, self._topic, self._group, explicit=True)
        try:
            while not self._stopping.is_set():
                begun = time.monotonic()
                self._accept(consumer, poll(consumer, 0.2), begun)
        finally:
            consumer.close()

    def _accept(self, consumer: ShareConsumer, messages: list[Message], begun: float) -> None:
        if not messages:
            return
        with self._lock:
            self.deliveries += [Delivery(m.value(), m.delivery_count(), begun) for m in messages]
        for message in messages:
            consumer.acknowledge(message, self._fate(message.value() or b""))
        confirmed = commit(consumer)
        now = time.monotonic()
        with self._lock:
            for message in messages:
                if (message.topic(), message.partition()) not in confirmed:
                    continue
                if message.value() in self.accepted:
                    self.accepted_again[message.value()] += 1
                self.accepted.setdefault(message.value(), now)

    def delivered(self) -> set[bytes]:
        with self._lock:
            return {delivery.value for delivery in self.deliveries}

    def after_acceptance(self) -> list[Delivery]:
        """Return deliveries from polls that started after the broker confirmed the acceptance."""
        with self._lock:
            return [d for d in self.deliveries if d.polled > self.accepted.get(d.value, float("inf"))]


class Jobs:
    """Writes numbers to all partitions in turn until stopped."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int, per_second: float) -> None:
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 2}
        )
        self._topic = topic
        self._partitions = partitions
        self._pause = 1 / per_second
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.written: set[bytes] = set()
        self._failed: list[object] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _write(self) -> None:
        while not self._stopping.wait(self._pause):
            self.write_one()
            self._producer.poll(0)

    def write_one(self) -> bytes:
        number = len(self.written)
        value = str(number).encode()
        self.written.add(value)
        self._producer.produce(
            self._topic,
            value,
            partition=number % self._partitions,
            on_delivery=lambda error, _: error and self._failed.append(error),
        )
        return value

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        assert not self._failed, self._failed

    def write_more(self, count: int) -> set[bytes]:
        """Write more records after a stop."""
        more = {self.write_one() for _ in range(count)}
        assert self._producer.flush(60) == 0
        return more
