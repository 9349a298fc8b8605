"""The open files of one topic partition, and the rules for closing them.

Invariant: the committed offset is the end of the closed files. The writer closes all files of a partition together, by
record count or record time. The same records therefore always give the same files under the same names. After a crash
between closing and committing, the task writes those files again with the same content.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ottla.connect.api import TopicPartition
from ottla.connect.connectors.files.formats.base import FileBuilder, Format
from ottla.connect.connectors.files.partitioners import Extractor, Partitioner
from ottla.connect.connectors.files.stores import Store
from ottla.connect.connectors.values.plain import projected
from ottla.connect.data.record import SinkRecord
from ottla.connect.data.schema import Schema
from ottla.connect.data.struct import Struct
from ottla.connect.errors import ConnectError, DataError


@dataclass
class _OpenFile:
    builder: FileBuilder
    first_offset: int
    schema: Schema | None


class PartitionWriter:
    def __init__(
        self,
        at: TopicPartition,
        settings: Mapping[str, Any],
        format: Format,
        partitioner: Partitioner,
        store: Store,
    ) -> None:
        self._at, self._settings = at, settings
        self._format, self._partitioner, self._store = format, partitioner, store
        self._timestamp: Extractor | None = partitioner.timestamp
        self._files: dict[str, _OpenFile] = {}
        self._count = 0
        self._first_time: int | None = None
        self._directory: str | None = None
        self._next_rotation = self._scheduled()
        self._last_offset = -1
        #: Next offset after the closed files.
        self.closed_to: int | None = None

    @property
    def is_empty(self) -> bool:
        return not self._files

    def add(self, record: SinkRecord) -> None:
        if record.offset <= self._last_offset:
            # The record came again because closing a file is being retried.
            return
        directory = self._partitioner.directory(record)
        when = self._timestamp(record) if self._timestamp is not None else None
        record = self._fitting(directory, record)
        if self._must_rotate(directory, when, record):
            self.close()
        file = self._files.get(directory)
        if file is None:
            schema = record.value_schema
            file = _OpenFile(self._format.begin(schema), record.offset, schema)
        file.builder.add(record)
        # Register the file only now, so that a rejected record leaves nothing behind.
        self._files[directory] = file
        self._first_time = when if self._first_time is None else self._first_time
        self._directory, self._last_offset = directory, record.offset
        self._count += 1
        if self._count >= self._settings["flush.size"]:
            self.close()

    def _fitting(self, directory: str, record: SinkRecord) -> SinkRecord:
        """Convert a record with an older, compatible schema to the file's schema."""
        file = self._files.get(directory)
        if (
            file is None
            or not self._format.has_schemas
            or self._settings["schema.compatibility"] == "NONE"
            or record.value_schema == file.schema
            or file.schema is None
            or not isinstance(record.value, Struct)
            or ((record.value_schema and record.value_schema.version) or 0) > (file.schema.version or 0)
        ):
            return record
        try:
            return replace(record, value=projected(record.value, file.schema), value_schema=file.schema)
        except KeyError:
            return record

    def _must_rotate(self, directory: str, when: int | None, record: SinkRecord) -> bool:
        if not self._files:
            return False
        file = self._files.get(directory)
        if self._format.has_schemas and file is not None and file.schema != record.value_schema:
            return True
        interval = self._settings["rotate.interval.ms"]
        if interval <= 0 or when is None or self._first_time is None:
            return False
        return when - self._first_time >= interval or directory != self._directory

    def tick(self) -> None:
        """Close files that have reached a rotation time, and retry failed writes."""
        if self._count >= self._settings["flush.size"]:
            self.close()
        if self._next_rotation is not None and time.time() * 1000 >= self._next_rotation:
            self._next_rotation = self._scheduled()
            self.close()

    def _scheduled(self) -> float | None:
        interval: int = self._settings["rotate.schedule.interval.ms"]
        return time.time() * 1000 + interval if interval > 0 else None

    def close(self) -> None:
        """Write all files. If one write fails, all files stay open and the next attempt writes them again."""
        for directory, file in self._files.items():
            path = self._path(directory, file.first_offset)
            try:
                content = file.builder.content()
            except DataError as error:
                # The failing record is unknown, so no record may be skipped.
                raise ConnectError(f"The file {path} cannot be made: {error.message}") from None
            self._store.write(path, content)
        if self._files:
            self.closed_to = self._last_offset + 1
        self._files, self._count, self._first_time, self._directory = {}, 0, None, None

    def _path(self, directory: str, offset: int) -> str:
        settings = self._settings
        delimiter: str = settings["file.delim"]
        place: str = settings["directory.delim"]
        number = f"{offset:0{settings['filename.offset.zero.pad.width']}d}"
        name = delimiter.join((self._at.topic, str(self._at.partition), number)) + self._format.extension
        above = [settings["topics.dir"]] if settings["topics.dir"] else []
        return place.join([*above, self._at.topic, directory, name])
