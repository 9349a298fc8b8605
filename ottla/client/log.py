"""A topic as a log: one fenced writer, and readers from the beginning."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError, error_code
from ottla.client.fetch import FetchOptions, PartitionFetcher
from ottla.client.offsets import EARLIEST, list_offsets
from ottla.client.settings import Settings
from ottla.client.transactions import TransactionClient
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.records import Record, build_batch, read_records

# Write to a storage topic such that a replaced leader is fenced.
#
# A new leader requests the producer id of a transactional id shared by all members, and gets a higher epoch than all
# earlier leaders. Its first record makes the partition aware of that epoch. From then on the broker refuses records of
# older leaders. No transaction is opened, so the log contains no markers.

_log = logging.getLogger(__name__)

_ALL_IN_SYNC = -1
_LAST_WITH_NAMES = 12
_TRANSACTION_TIMEOUT_MS = 60_000
_NO_PRODUCER = -1
_REPLACED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class Fenced(Exception):
    """Another producer with the same transactional id has taken over."""


class TooLarge(Exception):
    """The broker rejects records of this size."""


Entry = tuple[bytes, bytes | None]


class LogProducer:
    """Used by one thread at a time.

    Without a transactional id there is no fencing, and a record with an unknown outcome may be duplicated.
    """

    def __init__(self, settings: Settings, topic: str, transactional_id: str, partition: int = 0) -> None:
        self._cluster = Cluster(settings)
        self._partition = TopicPartition(topic, partition)
        self._transactional_id = transactional_id
        self._producer_id = _NO_PRODUCER
        self._epoch = -1
        self._sequence = 0
        self._is_uncertain = False

    def close(self) -> None:
        self._cluster.close()

    def take_over(self) -> None:
        """Fence all earlier producers, effective with the next record."""
        try:
            begun = TransactionClient(self._cluster).begin(self._transactional_id, _TRANSACTION_TIMEOUT_MS)
            self._producer_id, self._epoch = begun.producer_id, begun.producer_epoch
        except ClientError as error:
            if error.code not in (
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                ErrorCode.UNSUPPORTED_VERSION,
            ):
                raise
            _log.warning(
                "A leader that was replaced cannot be kept from writing to %s: allow WRITE on the transactional id "
                "%s. (%s)",
                self._partition.topic,
                self._transactional_id,
                error.message,
            )
            self._producer_id, self._epoch = _NO_PRODUCER, -1
        self._sequence = 0
        self._is_uncertain = False

    def append(self, entries: Sequence[Entry], seconds: float) -> int:
        """Append all records or none, and return the last offset. Repeats the request until the outcome is known."""
        if self._is_uncertain:
            # The broker would mistake other records under the same sequence number for the earlier ones.
            raise Fenced("it is not known whether the last records were written")
        now = time.time_ns() // 1_000_000
        idempotent = self._producer_id != _NO_PRODUCER
        batch = build_batch(
            [Record(0, now, key, value) for key, value in entries],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence if idempotent else -1,
        )
        try:
            base = self._cluster.retrying(
                lambda: self._send(batch, int(seconds * 1000)), [self._partition.topic], seconds
            )
        except ClientError:
            self._is_uncertain = bool(self._transactional_id)
            raise
        if idempotent:
            self._sequence = (self._sequence + len(entries)) & 0x7FFFFFFF
        return base + len(entries) - 1

    def _send(self, batch: bytearray, timeout_ms: int) -> int:
        topic = self._partition.topic
        leader = self._cluster.leader(self._partition)
        topic_id = self._cluster.topic_id(topic)
        request = ProduceRequest(
            acks=_ALL_IN_SYNC,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    topic_id=topic_id,
                    partition_data=[PartitionProduceData(index=self._partition.partition, records=batch)],
                )
            ],
        )
        version = _LAST_WITH_NAMES if topic_id == ZERO_UUID else None
        answer = leader.request(request, ProduceResponse, max_version=version)
        part = answer.responses[0].partition_responses[0]
        code = error_code(part.error_code)
        if code in _REPLACED:
            raise Fenced(code.name)
        if code in _TOO_LARGE:
            raise TooLarge(part.error_message or code.name)
        if code != ErrorCode.NONE:
            raise ClientError(f"Topic '{topic}' cannot be written: {part.error_message or code.name}.", code)
        return part.base_offset


# A thread that reads a partition from its beginning forever, for topics used as storage.

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
