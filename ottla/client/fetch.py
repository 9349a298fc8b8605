"""Read one partition in order as raw record batches. The next fetch can be sent before this one is processed."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.connection import Connection, Sent
from ottla.client.errors import ClientError, error_code
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

#: Last version with topic names; later ones use topic ids.
_LAST_WITH_NAMES = 12


class Fetched(NamedTuple):
    """Fetched records, valid until the next fetch overwrites them."""

    records: Any  # a buffer of complete batches; the last one may be truncated
    high_watermark: int
    aborted: list[tuple[int, int]]  # producer id and first offset of aborted transactions


class FetchOptions(NamedTuple):
    max_bytes: int = 4 << 20
    min_bytes: int = 1
    max_wait_ms: int = 500
    isolation_level: int = 0


class PartitionFetcher:
    """Fetches in order. `close` it after use, or its connection stays busy."""

    def __init__(self, cluster: Cluster, partition: TopicPartition, options: FetchOptions) -> None:
        self._cluster = cluster
        self._partition = partition
        self._options = options
        self._ahead: tuple[int, Connection, Sent[FetchResponse]] | None = None
        self._buffer = bytearray()

    def fetch(self, offset: int) -> Fetched:
        """Return records from `offset`; none if none arrived within `max_wait_ms`.

        After a retriable ClientError, `Cluster.forget` the topic and try again.
        """
        ahead, self._ahead = self._ahead, None
        if ahead is None or ahead[0] != offset:
            if ahead is not None:
                ahead[1].close()
            ahead = self._send(offset)
        _, connection, sent = ahead
        return self._result(connection.receive(sent, self._room))

    def fetch_ahead(self, offset: int) -> None:
        """Send the next fetch now. After a failure, `fetch` sends it again and raises any error."""
        with suppress(ClientError):
            self._ahead = self._send(offset)

    def close(self) -> None:
        if self._ahead is not None:
            self._ahead[1].close()
            self._ahead = None

    def _room(self, size: int) -> memoryview:
        """Reuse the memory of the previous response if possible: allocation costs about as much as reading."""
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        return memoryview(self._buffer)[:size]

    def _send(self, offset: int) -> tuple[int, Connection, Sent[FetchResponse]]:
        connection = self._cluster.leader(self._partition)
        topic_id = self._cluster.topic_id(self._partition.topic)
        options = self._options
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=options.max_wait_ms,
            min_bytes=options.min_bytes,
            max_bytes=options.max_bytes,
            isolation_level=options.isolation_level,
            session_id=0,
            session_epoch=-1,
            topics=[
                FetchTopic(
                    topic=self._partition.topic,
                    topic_id=topic_id,
                    partitions=[
                        FetchPartition(
                            partition=self._partition.partition,
                            fetch_offset=offset,
                            partition_max_bytes=options.max_bytes,
                        )
                    ],
                )
            ],
        )
        max_version = _LAST_WITH_NAMES if topic_id == ZERO_UUID else None
        return offset, connection, connection.send(request, FetchResponse, max_version=max_version)

    def _result(self, answer: FetchResponse) -> Fetched:
        self._check(answer.error_code)
        partitions = [part for topic in answer.responses for part in topic.partitions]
        if not partitions:
            self._check(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        data: PartitionData = partitions[0]
        self._check(data.error_code)
        return Fetched(
            data.records or b"",
            data.high_watermark,
            [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()],
        )

    def _check(self, number: int) -> None:
        code = error_code(number)
        if code != ErrorCode.NONE:
            raise ClientError(f"Partition {self._partition} cannot be read: {code.name}.", code)
