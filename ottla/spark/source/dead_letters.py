"""Undecodable records for a dead-letter topic: unchanged, with headers that state the reason.

`ottla.client.dead_letters` names the headers. The command line uses them to send records back.
"""

from __future__ import annotations

import pyarrow as pa

from ottla.client.cluster import TopicPartition
from ottla.client.dead_letters import ERROR, OFFSET, PARTITION, PREFIX, REASON, TIMESTAMP, TOPIC
from ottla.client.settings import Settings
from ottla.records.kernels.record_columns import HEADERS_TYPE
from ottla.spark.sink.sink_options import SinkOptions
from ottla.spark.sink.task import write_rows

#: Number of waiting records at which a task writes them.
_MOST_WAITING = 10_000


class DeadLetters:
    """Dead letters of one partition and one task. All added records are acknowledged when `flush` returns."""

    def __init__(self, settings: Settings, topic: str, source: TopicPartition) -> None:
        self._options = SinkOptions(settings=settings, topic=topic)
        self._source = source
        self._waiting: list[dict[str, object]] = []

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: list[dict[str, object]] | None,
        offset: int,
        timestamp: int,
        error: str,
        reason: str,
    ) -> None:
        why = {
            ERROR: error,
            REASON: reason,
            TOPIC: self._source.topic,
            PARTITION: self._source.partition,
            OFFSET: offset,
            TIMESTAMP: timestamp,
        }
        kept = [header for header in headers or () if not str(header["key"]).startswith(PREFIX)]
        added = [{"key": name, "value": str(what).encode()} for name, what in why.items()]
        self._waiting.append({"key": key, "value": value, "headers": kept + added})
        if len(self._waiting) >= _MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        rows = pa.RecordBatch.from_pylist(
            self._waiting,
            schema=pa.schema([("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS_TYPE)]),
        )
        write_rows(self._options, iter([rows]))
        self._waiting.clear()
