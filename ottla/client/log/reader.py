"""A thread that reads a partition from its beginning forever, for topics used as storage."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.fetch import FetchOptions, PartitionFetcher
from ottla.client.offsets import EARLIEST, list_offsets
from ottla.client.settings import Settings
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import Record, read_records

_log = logging.getLogger(__name__)

_WAIT_MS = 250


class Batch(NamedTuple):
    """Records read. `restart` means that the log starts over: earlier records are void."""

    records: list[Record]
    next_offset: int
    high_watermark: int
    restart: bool = False


class LogReader:
    """Calls `deliver` in the reader's thread, in log order."""

    def __init__(
        self, settings: Settings, topic: str, deliver: Callable[[Batch], None], partition: int = 0
    ) -> None:
        self._settings = settings
        self._partition = TopicPartition(topic, partition)
        self._deliver = deliver
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader-{topic}-{partition}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        cluster = Cluster(self._settings)
        fetcher = PartitionFetcher(cluster, self._partition, FetchOptions(max_wait_ms=_WAIT_MS))
        position: int | None = None
        topic_id: bytes | None = None
        in_trouble = False
        try:
            while not self._stopping.is_set():
                try:
                    if position is None:
                        found = list_offsets(cluster, {self._partition: EARLIEST}, seconds=0)
                        position = found[self._partition].offset
                        topic_id = cluster.topic_id(self._partition.topic)
                        self._deliver(Batch([], position, -1, restart=True))
                    position = self._read(fetcher, position)
                    in_trouble = False
                except (ClientError, KafkaError) as error:
                    if not in_trouble:
                        _log.warning("Cannot read %s, and try again: %s", self._partition.topic, error)
                    in_trouble = True
                    fetcher.close()
                    cluster.forget(self._partition.topic)
                    if error.code == ErrorCode.OFFSET_OUT_OF_RANGE or self._is_another(cluster, topic_id):
                        position = None
                    self._stopping.wait(self._settings.retry_backoff)
        finally:
            fetcher.close()
            cluster.close()

    def _read(self, fetcher: PartitionFetcher, position: int) -> int:
        fetched = fetcher.fetch(position)
        records: list[Record] = []
        for header, batch in read_records(fetched.records):
            if not header.is_control:
                records += [each for each in batch if each.offset >= position]
            position = max(position, header.next_offset)
        self._deliver(Batch(records, position, fetched.high_watermark))
        return position

    def _is_another(self, cluster: Cluster, topic_id: bytes | None) -> bool:
        try:
            cluster.leader(self._partition)
            return topic_id is not None and cluster.topic_id(self._partition.topic) != topic_id
        except ClientError:
            return False
