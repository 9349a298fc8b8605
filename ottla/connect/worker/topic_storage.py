"""A topic as storage for a worker. Every worker reads all partitions from the start, and any worker may write."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import Unreachable
from ottla.client.log import Batch, LogProducer, LogReader
from ottla.client.offsets import LATEST, list_offsets
from ottla.client.produce import partition_of
from ottla.client.settings import Settings
from ottla.connect.errors import RetriableError
from ottla.connect.worker.internal_topics import InternalTopic, ensure_topic

_log = logging.getLogger(__name__)

OnRecord = Callable[[bytes, bytes | None, int], None]
Entry = tuple[bytes, bytes | None]


class TopicStorage:
    """The reader threads call `on_record` with key, value and offset, one call at a time.

    `fencing_id` is the transactional id for `append`; see `take_over`.
    """

    def __init__(
        self,
        settings: Settings,
        topic: InternalTopic,
        on_record: OnRecord,
        *,
        fencing_id: str = "",
        on_restart: Callable[[], None] | None = None,
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._on_record = on_record
        self._on_restart = on_restart
        self._fencing_id = fencing_id
        self._positions: dict[int, int] = {}
        self._changed = threading.Condition()
        self._readers: list[LogReader] = []
        self._write_lock = threading.Lock()
        self._producers: dict[int, LogProducer] = {}
        self._fenced: LogProducer | None = None
        self._partitions = 0

    def start(self, seconds: float) -> None:
        """Start and read all existing records. Raises ConfigError, ClientError, RetriableError."""
        self._partitions = self._prepare(seconds)
        for number in range(self._partitions):
            reader = LogReader(self._settings, self._topic.name, partial(self._read, number), number)
            self._readers.append(reader)
            reader.start()
        self.read_to_end(seconds)

    def _prepare(self, seconds: float) -> int:
        """Wait for brokers that are still starting, and ensure that the topic exists. Return its partition count."""
        cluster = Cluster(self._settings)
        deadline = time.monotonic() + seconds
        has_warned = False
        try:
            while True:
                try:
                    return ensure_topic(cluster, self._topic)
                except Unreachable as error:
                    if time.monotonic() + self._settings.retry_backoff > deadline:
                        raise
                    if not has_warned:
                        _log.warning("%s Trying again for %g s.", error.message, seconds)
                    has_warned = True
                time.sleep(self._settings.retry_backoff)
        finally:
            cluster.close()

    def stop(self) -> None:
        for reader in self._readers:
            reader.stop()
        with self._write_lock:
            for producer in self._producers.values():
                producer.close()
            if self._fenced is not None:
                self._fenced.close()

    # Reading

    def _read(self, partition: int, batch: Batch) -> None:
        with self._changed:
            if batch.restart and self._on_restart is not None:
                self._on_restart()
            for record in batch.records:
                if record.key is not None:
                    value = None if record.value is None else bytes(record.value)
                    self._on_record(bytes(record.key), value, record.offset)
            self._positions[partition] = batch.next_offset
            self._changed.notify_all()

    def read_to_end(self, seconds: float) -> None:
        """Wait until all current records are read. Raises RetriableError on a timeout."""
        deadline = time.monotonic() + seconds
        cluster = Cluster(self._settings)
        try:
            wanted = {TopicPartition(self._topic.name, each): LATEST for each in range(self._partitions)}
            found = list_offsets(cluster, wanted, seconds=seconds)
        finally:
            cluster.close()
        ends = {each.partition: end.offset for each, end in found.items()}
        self._wait_for(ends, deadline - time.monotonic())

    def wait_for(self, offset: int, seconds: float, partition: int = 0) -> None:
        """Wait until the record at this offset is read."""
        self._wait_for({partition: offset + 1}, seconds)

    def _wait_for(self, ends: dict[int, int], seconds: float) -> None:
        def is_there() -> bool:
            return all(self._positions.get(number, -1) >= end for number, end in ends.items())

        with self._changed:
            if not self._changed.wait_for(is_there, max(seconds, 0)):
                raise RetriableError(f"Topic '{self._topic.name}' could not be read to its end in time.")

    # Writing

    def write(self, key: bytes, value: bytes | None, seconds: float) -> tuple[int, int]:
        """Write as any worker. Return partition and offset."""
        partition = partition_of(key, self._partitions)
        with self._write_lock:
            producer = self._producers.get(partition)
            if producer is None:
                producer = LogProducer(self._settings, self._topic.name, "", partition)
                self._producers[partition] = producer
            return partition, producer.append([(key, value)], seconds)

    def take_over(self) -> None:
        """Fence all previous owners with the next `append`. Raises ClientError."""
        with self._write_lock:
            if self._fenced is None:
                self._fenced = LogProducer(self._settings, self._topic.name, self._fencing_id)
            self._fenced.take_over()

    def append(self, entries: Sequence[Entry], seconds: float) -> int:
        """Append atomically as the leader. Return the last offset. Raises Fenced, TooLarge, ClientError."""
        with self._write_lock:
            assert self._fenced is not None, "only after take_over"
            return self._fenced.append(entries, seconds)
