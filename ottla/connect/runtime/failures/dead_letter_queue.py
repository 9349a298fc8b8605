"""The dead letter queue of a sink: the original records, with Kafka's headers for the error context."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster
from ottla.client.dead_letters import CONNECT_PREFIX
from ottla.client.errors import ClientError
from ottla.connect.config.config_def import ConfigDef, ConfigType
from ottla.connect.errors import ConnectError
from ottla.connect.runtime.failures.stages import Failure
from ottla.connect.runtime.records.topic_records import RawHeaders, RawRecord
from ottla.protocol.errors import ErrorCode
from ottla.records.kernels.record_columns import HEADERS_TYPE
from ottla.spark.sink.sink_options import SinkOptions
from ottla.spark.sink.task import write_rows

DEAD_LETTERS = (
    ConfigDef()
    .define("errors.deadletterqueue.topic.name", ConfigType.STRING, "")
    .define("errors.deadletterqueue.topic.replication.factor", ConfigType.SHORT, 3)
    .define("errors.deadletterqueue.context.headers.enable", ConfigType.BOOLEAN, False)
)

_MOST_WAITING = 1000


class DeadLetterQueue:
    """Owner: one task, in one thread. Brokers have acknowledged all added records when `flush` returns.

    Without a topic name, the queue does nothing.
    """

    def __init__(self, config: Mapping[str, str], connector: str, task: int, options: SinkOptions) -> None:
        settings = DEAD_LETTERS.parse(config)
        self.topic: str = settings["errors.deadletterqueue.topic.name"]
        self._replication: int = settings["errors.deadletterqueue.topic.replication.factor"]
        self._with_context: bool = settings["errors.deadletterqueue.context.headers.enable"]
        self._connector = connector
        self._task = task
        self._options = SinkOptions(
            settings=options.settings, topic=self.topic, codec=options.codec, level=options.level
        )
        self._waiting: list[tuple[bytes | None, bytes | None, RawHeaders, int | None]] = []

    def prepare(self, cluster: Cluster) -> None:
        """Create a missing topic with one partition, as Kafka does."""
        if not self.topic or self.topic in cluster.retrying(lambda: cluster.topics([self.topic])):
            return
        try:
            create_topic(
                cluster,
                self.topic,
                partitions=1,
                replication_factor=None if self._replication < 0 else self._replication,
            )
        except ClientError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise ConnectError(
                    f"Could not initialize dead letter queue with topic={self.topic}: {error.message}",
                    error.code,
                ) from error

    def add(self, failure: Failure, record: RawRecord) -> None:
        if not self.topic:
            return
        context = self._context(failure, record) if self._with_context else []
        timestamp = record.timestamp if record.timestamp >= 0 else None
        self._waiting.append((record.key, record.value, [*record.headers, *context], timestamp))
        if len(self._waiting) >= _MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        keys, values, headers, timestamps = zip(*self._waiting, strict=True)
        rows = pa.RecordBatch.from_arrays(
            [
                pa.array(keys, pa.binary()),
                pa.array(values, pa.binary()),
                pa.array([[{"key": k, "value": v} for k, v in each] for each in headers], HEADERS_TYPE),
                pa.array(timestamps, pa.timestamp("ms", "UTC")),
            ],
            names=["key", "value", "headers", "timestamp"],
        )
        write_rows(self._options, iter([rows]))
        self._waiting.clear()

    def _context(self, failure: Failure, record: RawRecord) -> RawHeaders:
        about = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "connector.name": self._connector,
            "task.id": self._task,
            "stage": failure.stage,
            "class.name": failure.executing,
            "exception.class.name": failure.exception_class,
            "exception.message": failure.message,
            "exception.stacktrace": failure.stack_trace,
        }
        return [(f"{CONNECT_PREFIX}{name}", str(value).encode()) for name, value in about.items()]
