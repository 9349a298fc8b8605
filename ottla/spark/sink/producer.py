"""Producer that delivers record batches to partition leaders in order, with acknowledgements and retries.

Each broker has at most one request in flight while the next batches are encoded. So a failed batch is always the first
in its partition's queue, and stays there until it is acknowledged, which preserves the order.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.connection import Connection, Sent
from ottla.client.errors import ClientError, error_code
from ottla.client.transactions import Transaction
from ottla.protocol.batch_header import read_header
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from ottla.records import kernels
from ottla.records.kernels import Encoder, Seal
from ottla.records.kernels.sealing import restamp
from ottla.spark.sink.sink_options import SinkOptions

#: Last version with topic names; later versions use topic ids.
_LAST_WITH_NAMES = 12
#: From the next version on, a write adds its partition to the transaction, and its end bumps the epoch (KIP-890).
_LAST_OF_TRANSACTIONS = 11
#: Limit of unacknowledged bytes at which encoding waits.
_MOST_WAITING = 16 << 20
#: Size at which a request stops growing.
_REQUEST_BYTES = 8 << 20
_PARTS = 4
_EVERYTHING = 1 << 62
_SEQUENCES = 0x7FFFFFFF

_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
#: The broker has lost the producer state. The producer can continue with a new producer id.
_IDENTITY_LOST = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH}
)


class ProducerTransaction(Protocol):
    """Transaction interface that the producer needs."""

    def begin(self) -> Transaction:
        """Return the open transaction, or begin a new one."""

    def without(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that are not part of the transaction yet."""

    def add(self, partitions: list[TopicPartition]) -> None: ...


class _Batch(NamedTuple):
    data: bytearray
    deadline: float


class _Request(NamedTuple):
    connection: Connection
    sent: Sent[ProduceResponse]
    batches: dict[TopicPartition, _Batch]


class Producer:
    """Invariant: the batch in flight for a partition is the first in its queue. Owner: one task, in one thread.

    All sent records are acknowledged when `flush` returns. The caller ends the transaction, if any.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: SinkOptions,
        transaction: ProducerTransaction | None = None,
        on_retry: Callable[[ClientError], None] | None = None,
    ) -> None:
        """Create a producer. `on_retry` receives the errors that delay a partition."""
        self._cluster = cluster
        self._options = options
        self._transaction = transaction
        self._on_retry = on_retry
        self._identity: tuple[int, int] | None = None if options.idempotent else (-1, -1)
        self._sequences: dict[TopicPartition, int] = {}
        self._queues: dict[TopicPartition, deque[_Batch]] = {}
        self._waiting_bytes = 0
        self._in_flight: list[_Request] = []
        self._stale: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for request in self._in_flight:  # nobody reads these responses
            request.connection.close()

    # Interface for tasks

    def partition_count(self, topic: str) -> int:
        """Return the partition count. Wait for a missing topic, because brokers may create it on demand."""
        self._receive_all()
        deadline = time.monotonic() + self._options.topic_timeout
        while True:
            failure = ClientError(
                f"Topic '{topic}' does not exist, and the broker did not create it.",
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            try:
                found = self._cluster.topics([topic]).get(topic)
                if found is not None:
                    return len(found.leaders)
                self._cluster.metadata([topic], create=True)
            except ClientError as error:
                failure = error
            if not failure.is_retriable or time.monotonic() > deadline:
                raise failure
            time.sleep(self._cluster.settings.retry_backoff)

    def send(self, partition: TopicPartition, encoder: Encoder, rows: Any) -> None:
        """Queue rows in order. Block while too many bytes are waiting."""
        producer_id, epoch = self._identified()
        sequence = self._sequences.get(partition, 0)
        options = self._options
        first = sequence if producer_id >= 0 else -1
        seal = Seal(options.codec, options.level, producer_id, epoch, first, self._transaction is not None)
        batches = encoder.encode(rows, options.batch_bytes, seal)
        self._sequences[partition] = sequence + len(rows) & _SEQUENCES
        self._queues.setdefault(partition, deque()).extend(self._with_deadline(batches))
        self._waiting_bytes += sum(map(len, batches))
        while self._waiting_bytes > _MOST_WAITING:
            self._exchange()

    def push(self) -> None:
        if not self._stale:
            self._join_transaction()
            self._send_ready()

    def flush(self) -> None:
        while self._queues or self._in_flight:
            self._exchange()

    # The exchange with the brokers

    def _exchange(self) -> None:
        if self._stale:
            self._receive_all()
            self._recover()
        self._join_transaction()
        self._send_ready()
        if self._in_flight:
            self._receive(self._in_flight.pop(0))

    def _receive_all(self) -> None:
        """Wait for all responses, so that connections are free for other requests."""
        while self._in_flight:
            self._receive(self._in_flight.pop(0))

    def _recover(self) -> None:
        """Look up the leaders again after a failure, and get a new producer id if the broker lost ours."""
        time.sleep(self._cluster.settings.retry_backoff)
        for topic in self._stale:
            self._cluster.forget(topic)
        stale, self._stale = self._stale, set()
        with suppress(ClientError):  # failures surface for each partition
            self._cluster.topics(sorted(stale))
        self._identified()

    def _join_transaction(self) -> None:
        if self._transaction is not None and (new := self._transaction.without(self._queues)):
            self._receive_all()
            self._transaction.add(new)

    def _send_ready(self) -> None:
        busy = {id(request.connection) for request in self._in_flight}
        in_flight = {partition for request in self._in_flight for partition in request.batches}
        groups: dict[int, tuple[Connection, dict[TopicPartition, _Batch]]] = {}
        sizes: dict[int, int] = {}
        for partition, queue in list(self._queues.items()):
            if partition in in_flight or partition.topic in self._stale:
                continue
            batch = queue[0]
            try:
                connection = self._cluster.leader(partition)
            except ClientError as error:
                self._check_retry(partition, batch, error)
                continue
            size = sizes.get(id(connection), 0)
            if id(connection) in busy or size > _REQUEST_BYTES:
                continue
            sizes[id(connection)] = size + len(batch.data)
            groups.setdefault(id(connection), (connection, {}))[1][partition] = batch
        for connection, batches in groups.values():
            self._send(connection, batches)

    def _send(self, connection: Connection, batches: dict[TopicPartition, _Batch]) -> None:
        topics: dict[str, TopicProduceData] = {}
        for partition, batch in batches.items():
            topic = topics.get(partition.topic)
            if topic is None:
                topic = topics[partition.topic] = TopicProduceData(
                    name=partition.topic, topic_id=self._cluster.topic_id(partition.topic), partition_data=[]
                )
            topic.partition_data.append(PartitionProduceData(index=partition.partition, records=batch.data))
        max_version = None
        transactional_id = None
        if self._transaction is not None:
            max_version, transactional_id = _LAST_OF_TRANSACTIONS, self._transaction.begin().transactional_id
        elif any(topic.topic_id == ZERO_UUID for topic in topics.values()):
            max_version = _LAST_WITH_NAMES
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=self._options.acks,
            timeout_ms=int(self._cluster.settings.request_timeout * 1000),
            topic_data=list(topics.values()),
        )
        try:
            sent = connection.send(request, ProduceResponse, max_version=max_version)
        except ClientError as error:
            for partition, batch in batches.items():
                self._check_retry(partition, batch, error)
        else:
            self._in_flight.append(_Request(connection, sent, batches))

    def _receive(self, request: _Request) -> None:
        try:
            answer = request.connection.receive(request.sent)
        except ClientError as error:
            for partition, batch in request.batches.items():
                self._check_retry(partition, batch, error)
            return
        answers: dict[tuple[str | bytes, int], PartitionProduceResponse] = {
            (key, part.index): part
            for topic in answer.responses
            for key in (topic.name, topic.topic_id)
            for part in topic.partition_responses
        }
        for partition, batch in request.batches.items():
            part = answers.get((partition.topic, partition.partition)) or answers.get(
                (self._cluster.topic_id(partition.topic), partition.partition)
            )
            self._answered(partition, batch, part)

    def _answered(
        self, partition: TopicPartition, batch: _Batch, part: PartitionProduceResponse | None
    ) -> None:
        code = ErrorCode.UNKNOWN_SERVER_ERROR if part is None else error_code(part.error_code)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._done(partition)
        elif code in _TOO_LARGE and read_header(batch.data).record_count > 1:
            parts = self._split(batch.data)
            self._done(partition, parts)
        elif code in _IDENTITY_LOST and self._can_change_producer_id and time.monotonic() < batch.deadline:
            self._identity = None
            self._stale.add(partition.topic)
        else:
            said = part.error_message if part is not None and part.error_message else ""
            self._check_retry(partition, batch, ClientError(f"{code.name} {said}".strip(), code))

    @property
    def _can_change_producer_id(self) -> bool:
        """Return False in a transaction, which belongs to one producer id."""
        return self._options.idempotent and self._transaction is None

    def _done(self, partition: TopicPartition, instead: Iterable[bytearray] = ()) -> None:
        queue = self._queues[partition]
        self._waiting_bytes -= len(queue.popleft().data)
        for batch in reversed([*self._with_deadline(instead)]):
            queue.appendleft(batch)
            self._waiting_bytes += len(batch.data)
        if not queue:
            del self._queues[partition]

    def _check_retry(self, partition: TopicPartition, batch: _Batch, error: ClientError) -> None:
        """Keep the batch for a retry. Raises ClientError if a retry is useless or time is up."""
        hint = ""
        if error.code in _TOO_LARGE:
            hint = f" (a record of {len(batch.data)} bytes: see max.message.bytes of the topic)"
        failure = ClientError(
            f"Partition {partition} cannot be written{hint}: {error.message.rstrip('.')}.", error.code
        )
        if not error.is_retriable or time.monotonic() > batch.deadline:
            raise failure
        if self._on_retry is not None:
            self._on_retry(failure)
        self._stale.add(partition.topic)

    # Batches

    def _with_deadline(self, batches: Iterable[bytearray]) -> Iterable[_Batch]:
        deadline = time.monotonic() + self._options.delivery_timeout
        return [_Batch(batch, deadline) for batch in batches]

    def _split(self, data: bytearray) -> list[bytearray]:
        """Split a batch for a topic with a small max.message.bytes. Sequence numbers stay."""
        header = read_header(data)
        columns, _ = kernels.decode(data, start=0, end=_EVERYTHING, with_headers=True)
        encoder = Encoder(columns.keys, columns.values, columns.headers, columns.timestamps)
        parts: list[bytearray] = []
        for rows in np.array_split(np.arange(encoder.count), min(_PARTS, encoder.count)):
            sequence = -1 if header.base_sequence < 0 else header.base_sequence + int(rows[0]) & _SEQUENCES
            seal = Seal(
                header.codec,
                self._options.level,
                header.producer_id,
                header.producer_epoch,
                sequence,
                header.is_transactional,
            )
            parts += encoder.encode(rows, self._options.batch_bytes, seal)
        return parts

    def _restamp_all(self, producer_id: int, producer_epoch: int) -> None:
        self._sequences.clear()
        for partition, queue in self._queues.items():
            sequence = 0
            for batch in queue:
                restamp(batch.data, producer_id, producer_epoch, sequence)
                sequence += read_header(batch.data).record_count
            self._sequences[partition] = sequence

    # Identity and topics

    def _identified(self) -> tuple[int, int]:
        if self._identity is None:
            self._receive_all()
            if self._transaction is not None:
                begun = self._transaction.begin()
                self._identity = begun.producer_id, begun.producer_epoch
                return self._identity
            self._identity = self._cluster.retrying(self._init_producer_id)
            self._restamp_all(*self._identity)
        return self._identity

    def _init_producer_id(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = self._cluster.any_connection().request(request, InitProducerIdResponse)
        code = error_code(answer.error_code)
        if code != ErrorCode.NONE:
            raise ClientError(f"The broker gives no producer id: {code.name}.", code)
        return answer.producer_id, answer.producer_epoch
