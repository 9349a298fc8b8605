"""VerifiableSource counts, VerifiableSink prints: one JSON line on standard output per record."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.connect.api import (
    Config,
    SinkConnector,
    SinkTask,
    SinkTaskContext,
    SourceConnector,
    SourceTask,
    SourceTaskContext,
    TopicPartition,
)
from ottla.connect.config.config_def import ConfigDef
from ottla.connect.data.record import SinkRecord, SourceRecord
from ottla.connect.data.schema import INT32, INT64, STRING, SchemaBuilder
from ottla.connect.data.struct import Struct
from ottla.connect.errors import ConnectError

_COMPLETE = (
    SchemaBuilder()
    .field("name", STRING)
    .field("task", INT32)
    .field("topic", STRING)
    .field("time_ms", INT64)
    .field("seqno", INT64)
    .build()
)
#: Maximum records per poll.
_BATCH = 500


class VerifiableSourceConnector(SourceConnector):
    """Settings: topic, throughput (records per second, -1 for no limit) and complete.record.data.

    The ConfigDef is empty, as in Kafka.
    """

    config_def = ConfigDef()
    summary = "counts, for tests"

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self.config, "id": str(number)} for number in range(max_tasks)]


class VerifiableSourceTask(SourceTask):
    def start(self, config: Config, context: SourceTaskContext) -> None:
        self._name = config.get("name", "")
        self._topic = config.get("topic", "")
        try:
            self._id = int(config["id"])
            self._throughput = int(config["throughput"])
        except (KeyError, ValueError):
            raise ConnectError(
                "Invalid VerifiableSourceTask configuration: throughput has to be a number."
            ) from None
        if not self._topic:
            raise ConnectError("Invalid VerifiableSourceTask configuration: topic has to be set.")
        self._complete = config.get("complete.record.data", "").lower() == "true"
        self._partition = {"id": self._id}
        offset = context.offset(self._partition)
        self._seqno: int = 0 if offset is None else offset["seqno"] + 1
        self._first, self._started = self._seqno, time.monotonic()
        self._uncommitted: list[int] = []

    def poll(self) -> Sequence[SourceRecord]:
        return [self._next() for _ in range(self._due())]

    def _due(self) -> int:
        if self._throughput < 0:
            return _BATCH
        if self._throughput == 0:
            time.sleep(0.1)
            return 0
        ahead = (self._seqno - self._first + 1) / self._throughput - (time.monotonic() - self._started)
        if ahead > 0:
            time.sleep(min(ahead, 0.5))
        allowed = int((time.monotonic() - self._started) * self._throughput) - (self._seqno - self._first)
        return max(0, min(allowed, _BATCH))

    def _next(self) -> SourceRecord:
        data = {
            "name": self._name,
            "task": self._id,
            "topic": self._topic,
            "time_ms": _now(),
            "seqno": self._seqno,
        }
        _print(data)
        record = SourceRecord(
            self._topic,
            Struct(_COMPLETE, data) if self._complete else self._seqno,
            _COMPLETE if self._complete else INT64,
            self._id,
            INT32,
            source_partition=self._partition,
            source_offset={"seqno": self._seqno},
        )
        self._uncommitted.append(self._seqno)
        self._seqno += 1
        return record

    def commit(self) -> None:
        for seqno in self._uncommitted:
            _print(
                {
                    "name": self._name,
                    "task": self._id,
                    "topic": self._topic,
                    "time_ms": _now(),
                    "seqno": seqno,
                    "committed": True,
                }
            )
        self._uncommitted = []


class VerifiableSinkConnector(SinkConnector):
    config_def = ConfigDef()
    summary = "prints records, for tests"
    delivery = "at least once"

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self.config, "id": str(number)} for number in range(max_tasks)]


class VerifiableSinkTask(SinkTask):
    def start(self, config: Config, context: SinkTaskContext) -> None:
        self._name = config.get("name", "")
        self._id = int(config.get("id", "0"))
        self._unflushed: list[dict[str, Any]] = []

    def put(self, records: Sequence[SinkRecord]) -> None:
        now = _now()
        for record in records:
            data = {
                "name": self._name,
                "task": record.key,
                "sinkTask": self._id,
                "topic": record.topic,
                "time_ms": now,
                "seqno": record.value,
                "offset": record.offset,
            }
            _print(data)
            self._unflushed.append(data)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        now = _now()
        for data in self._unflushed:
            _print({**data, "time_ms": now, "flushed": True})
        self._unflushed = []


def _now() -> int:
    return int(time.time() * 1000)


def _print(data: Mapping[str, Any]) -> None:
    print(json.dumps(data, separators=(",", ":"), default=str), flush=True)


VerifiableSourceConnector.task_class = VerifiableSourceTask
VerifiableSinkConnector.task_class = VerifiableSinkTask
