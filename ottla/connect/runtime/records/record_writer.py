"""Writes converted records to their topics, within the source task's transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.connect.runtime.records.topic_records import ConvertedRecords
from ottla.connect.runtime.records.transactions import SourceTransactions
from ottla.monitoring.audit.audit_topic import AUDIT_TOPIC
from ottla.monitoring.audit.counting import PipelineCounter
from ottla.records.kernels import Encoder, rows_by_partition
from ottla.records.kernels.record_columns import HEADERS_TYPE
from ottla.spark.sink.partitioner import Partitioner
from ottla.spark.sink.producer import Producer
from ottla.spark.sink.sink_options import SinkOptions

#: Maximum age of a cached partition count.
_METADATA_SECONDS = 300.0


class RecordWriter:
    """Owner: one task, in one thread. `prepare_topic` is called once per topic, before the first write."""

    def __init__(
        self,
        cluster: Cluster,
        options: SinkOptions,
        transactions: SourceTransactions,
        prepare_topic: Callable[[str], None],
        counter: PipelineCounter | None = None,
        on_retry: Callable[[ClientError], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._transactions = transactions
        self._producer = Producer(cluster, options, transactions, on_retry)
        self._prepare_topic = prepare_topic
        self._partitioners: dict[str, tuple[float, Partitioner]] = {}
        self._prepared: set[str] = set()
        self._counter = counter

    def write(self, records: Mapping[str, ConvertedRecords]) -> None:
        for topic, its in records.items():
            self._write(topic, its)
        self._producer.push()

    def commit(self) -> None:
        counter, self._counter = self._counter, None  # do not count the reports themselves
        if counter is not None and (reports := counter.take_columns()).keys:
            self._send(
                AUDIT_TOPIC,
                pa.array(reports.values, pa.binary()),
                pa.array(reports.keys, pa.binary()),
                None,
                None,
                pa.array([0] * len(reports.keys), pa.int32()),
            )
        self._counter = counter
        self._producer.flush()
        self._transactions.commit()

    def _write(self, topic: str, records: ConvertedRecords) -> None:
        headers = None
        if any(records.headers):
            headers = pa.array(
                [[{"key": key, "value": value} for key, value in each] or None for each in records.headers],
                HEADERS_TYPE,
            )
        named = None if _is_empty(records.partitions) else pa.array(records.partitions, pa.int32())
        keys = None if _is_empty(records.keys) else pa.array(records.keys, pa.binary())
        timestamps = None if _is_empty(records.timestamps) else pa.array(records.timestamps, pa.int64())
        values = pa.array(records.values, pa.binary())
        self._send(topic, values, keys, headers, timestamps, named)

    def _send(
        self,
        topic: str,
        values: pa.Array,
        keys: pa.Array | None,
        headers: pa.Array | None,
        timestamps: pa.Array | None,
        named: pa.Array | None,
    ) -> None:
        partitions = self._partitioner(topic).partitions(len(values), keys, named)
        encoder = Encoder(keys, values, headers, timestamps)
        if self._counter is not None:
            self._counter.note(topic, keys, values, encoder.timestamps)
        for partition, rows in rows_by_partition(partitions):
            self._producer.send(TopicPartition(topic, partition), encoder, rows)

    def _partitioner(self, topic: str) -> Partitioner:
        asked_at, found = self._partitioners.get(topic, (0.0, None))
        if found is None or time.monotonic() - asked_at > _METADATA_SECONDS:
            if topic not in self._prepared:
                self._producer.flush()  # connections must be free for other requests
                self._prepare_topic(topic)
                self._prepared.add(topic)
            found = Partitioner(topic, self._producer.partition_count(topic))
            self._partitioners[topic] = time.monotonic(), found
        return found


def _is_empty(column: list[Any]) -> bool:
    return column.count(None) == len(column)
