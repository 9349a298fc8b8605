"""The sinks `io.confluent.connect.s3.S3SinkConnector`, `io.confluent.connect.hdfs.HdfsSinkConnector` and FilesSink."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ottla.connect.api import Config, SinkConnector, SinkTask, SinkTaskContext, TopicPartition
from ottla.connect.config.local_files import local_path
from ottla.connect.connectors.files import settings
from ottla.connect.connectors.files.formats import open_format
from ottla.connect.connectors.files.partitioners import open_partitioner
from ottla.connect.connectors.files.stores import open_store
from ottla.connect.connectors.files.writer import PartitionWriter
from ottla.connect.data.record import SinkRecord
from ottla.connect.errors import ConnectError, DataError

log = logging.getLogger(__name__)


class _FilesConnector(SinkConnector):
    delivery = (
        "exactly once by the names of files, which have topic, partition and first offset; "
        "at least once with rotate.schedule.interval.ms or timestamp.extractor Wallclock"
    )

    def local_paths(self, config: Config) -> Mapping[str, str]:
        if config.get("s3.bucket.name"):
            return {}
        name = "store.url" if config.get("store.url") else "hdfs.url"
        root = local_path(config.get(name) or "")
        if root is None:
            return {}
        return {name: root, "topics.dir": os.path.join(root, config.get("topics.dir") or "")}

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        parsed = self.config_def.parse(config)
        found: dict[str, list[str]] = {}
        for name, check in (("format.class", open_format), ("partitioner.class", open_partitioner)):
            try:
                check(parsed)
            except ConnectError as error:
                found[name] = [error.message]
        return found

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config) for _ in range(max_tasks)]


class FilesSinkTask(SinkTask):
    connector: ClassVar[type[_FilesConnector]]

    def start(self, config: Config, context: SinkTaskContext) -> None:
        self._settings: dict[str, Any] = self.connector.config_def.parse(config)
        self._context = context
        self._format = open_format(self._settings)
        self._partitioner = open_partitioner(self._settings)
        self._store = open_store(self._settings)
        self._store.check()
        self._writers: dict[TopicPartition, PartitionWriter] = {}

    def put(self, records: Sequence[SinkRecord]) -> None:
        for writer in self._writers.values():
            writer.tick()
        for record in records:
            self._add(record)

    def _add(self, record: SinkRecord) -> None:
        at = TopicPartition(record.original_topic, record.original_partition)
        if record.value is None:
            if self._settings["behavior.on.null.values"] == "ignore":
                return
            self._context.report(
                record,
                DataError(
                    f"The record at {at.topic}-{at.partition}@{record.offset} has no value. "
                    "Set behavior.on.null.values to ignore to leave out such records."
                ),
            )
            return
        writer = self._writers.get(at)
        if writer is None:
            writer = self._writers[at] = PartitionWriter(
                at, self._settings, self._format, self._partitioner, self._store
            )
        try:
            writer.add(record)
        except DataError as error:
            self._context.report(record, error)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the end of the closed files. Records in open files must be read again after a crash."""
        found: dict[TopicPartition, int] = {}
        for writer in self._writers.values():
            writer.tick()
        for at, offset in offsets.items():
            its = self._writers.get(at)
            if its is None or its.is_empty:
                found[at] = offset
            elif its.closed_to is not None:
                found[at] = its.closed_to
        return found


class S3SinkConnector(_FilesConnector):
    config_def = settings.s3()
    summary = "files on S3: JSON, Avro, Parquet or bytes"


class HdfsSinkConnector(_FilesConnector):
    config_def = settings.hdfs()
    summary = "files on HDFS: JSON, Avro, Parquet or bytes"


class FilesSinkConnector(_FilesConnector):
    config_def = settings.local()
    summary = "files on a disk: JSON, Avro, Parquet or bytes"


for _each in (S3SinkConnector, HdfsSinkConnector, FilesSinkConnector):
    _each.task_class = type(
        _each.__name__.replace("Connector", "Task"), (FilesSinkTask,), {"connector": _each}
    )
