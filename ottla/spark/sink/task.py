"""Sink task: encodes and writes rows."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pyarrow as pa

from ottla.client.cluster import Cluster, TopicPartition, shared_cluster
from ottla.client.transactions import Transaction
from ottla.monitoring.audit.audit_topic import AUDIT_TOPIC, ensure_audit_topic
from ottla.monitoring.audit.counting import PipelineCounter
from ottla.records.kernels import Encoder, rows_by_partition
from ottla.spark.formats.encrypted_columns import encrypted
from ottla.spark.formats.registered.framing import with_header
from ottla.spark.formats.registered.writing import Encoding, encode_column
from ottla.spark.sink.exactly_once.task_transaction import Attempt, TaskTransaction
from ottla.spark.sink.partitioner import Partitioner
from ottla.spark.sink.producer import Producer
from ottla.spark.sink.row_chunks import Chunk, by_topic, chunk
from ottla.spark.sink.sink_options import SinkOptions
from ottla.spark.workers import settle

#: Spark passes ten thousand rows at a time. Combining them yields larger batches for many partitions.
_CHUNK_BYTES = 4 << 20


def write_rows(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> int:
    with shared_cluster(options.settings) as cluster:
        return _write(cluster, options, batches)


def prepare_rows(
    options: SinkOptions, batches: Iterator[pa.RecordBatch], attempt: Attempt
) -> tuple[int, Transaction | None]:
    """Write all rows in a transaction that stays open for the driver. Without rows there is no transaction."""
    with shared_cluster(options.settings) as cluster:
        transaction = TaskTransaction(cluster, attempt, options.transaction_timeout_ms)
        try:
            count = _write(cluster, options, batches, transaction)
        except BaseException:
            transaction.abort()
            raise
        return count, transaction.transaction


def _write(
    cluster: Cluster,
    options: SinkOptions,
    batches: Iterator[pa.RecordBatch],
    transaction: TaskTransaction | None = None,
) -> int:
    count = size = 0
    waiting: list[pa.RecordBatch] = []
    if options.audit is not None:
        cluster.retrying(lambda: ensure_audit_topic(cluster))
    with Producer(cluster, options, transaction) as producer:
        task = _Task(options, producer)
        for batch in batches:
            if not batch.num_rows:
                continue
            waiting.append(batch)
            count += batch.num_rows
            size += batch.nbytes
            if size >= _CHUNK_BYTES:
                task.write(chunk(waiting, options.partition_column))
                waiting, size = [], 0
        if waiting:
            task.write(chunk(waiting, options.partition_column))
        task.write_counts()
        producer.flush()
    settle()
    return count


class _Task:
    def __init__(self, options: SinkOptions, producer: Producer) -> None:
        self._topic = options.topic
        self._encryption = options.encryption
        self._key_encoding = options.key_encoding
        self._value_encoding = options.value_encoding
        self._producer = producer
        self._partitioners: dict[str, Partitioner] = {}
        self._counter = (
            None if options.audit is None else PipelineCounter(options.audit, socket.gethostname())
        )

    def write(self, rows: Chunk) -> None:
        rows = self._encoded(rows)
        for topic, part in by_topic(rows, self._topic):
            partitions = self._partitioner(topic).partitions(len(part.values), part.hashed, part.partitions)
            if self._encryption is not None:
                values, headers = encrypted(self._encryption, topic, part.values, part.headers)
                part = part._replace(values=values, headers=headers)
            encoder = Encoder(part.keys, part.values, part.headers, part.timestamps)
            if self._counter is not None:
                self._counter.note(topic, part.keys, part.values, encoder.timestamps)
            for partition, wanted in rows_by_partition(partitions):
                self._producer.send(TopicPartition(topic, partition), encoder, wanted)
        self._producer.push()

    def write_counts(self) -> None:
        if self._counter is not None and (reports := self._counter.take_columns()).keys:
            encoder = Encoder(
                pa.array(reports.keys, pa.binary()), pa.array(reports.values, pa.binary()), None, None
            )
            self._producer.send(TopicPartition(AUDIT_TOPIC, 0), encoder, range(len(reports.keys)))

    def _encoded(self, rows: Chunk) -> Chunk:
        if self._value_encoding is not None:
            rows = rows._replace(values=encode_column(self._value_encoding, rows.values))
            rows = _named(rows, self._value_encoding, rows.values)
        if self._key_encoding is not None and rows.keys is not None:
            keys = encode_column(self._key_encoding, rows.keys)
            rows = _named(rows, self._key_encoding, keys)
            # The bytes determine the partition, as with Java's serializers.
            rows = rows._replace(keys=keys, hashed=keys if rows.hashed is rows.keys else rows.hashed)
        return rows

    def _partitioner(self, topic: str) -> Partitioner:
        partitioner = self._partitioners.get(topic)
        if partitioner is None:
            count = self._producer.partition_count(topic)
            partitioner = self._partitioners[topic] = Partitioner(topic, count)
        return partitioner


def _named(rows: Chunk, encoding: Encoding, records: pa.Array) -> Chunk:
    if not encoding.header:
        return rows
    return rows._replace(headers=with_header(rows.headers, encoding.part, encoding.header, records))
