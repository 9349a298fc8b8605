"""Heartbeat records, which advance the offset during idle periods so that the database can trim its log."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ottla.connect.data.record import SourceRecord
from ottla.connect.data.schema import INT64, STRING, SchemaBuilder
from ottla.connect.data.struct import Struct

_KEY = (
    SchemaBuilder("io.debezium.connector.common.ServerNameKey", version=1).field("serverName", STRING).build()
)
_VALUE = SchemaBuilder("io.debezium.connector.common.Heartbeat", version=1).field("ts_ms", INT64).build()


class Heartbeat:
    def __init__(self, settings: Mapping[str, Any], partition: Mapping[str, Any]) -> None:
        self._interval: float = settings["heartbeat.interval.ms"] / 1000
        self._name = settings["topic.prefix"]
        self._topic = f"{settings['topic.heartbeat.prefix']}.{self._name}"
        self._partition = partition
        self._last = time.monotonic()

    @property
    def is_due(self) -> bool:
        return self._interval > 0 and time.monotonic() - self._last >= self._interval

    def record(self, offset: Mapping[str, Any]) -> SourceRecord:
        self._last = time.monotonic()
        return SourceRecord(
            self._topic,
            Struct(_VALUE, {"ts_ms": time.time_ns() // 1_000_000}),
            _VALUE,
            Struct(_KEY, {"serverName": self._name}),
            _KEY,
            source_partition=self._partition,
            source_offset=offset,
        )
