"""The sources SpoolDirCsv, SpoolDirJson, SpoolDirSchemaLessJson and SpoolDirLineDelimited.

The source offset of a file is the number of its records in the topic. The task moves or deletes a file only after
committing all its records, so delivery is exactly once.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from ottla.connect.api import Config, SourceConnector, SourceTask, SourceTaskContext
from ottla.connect.connectors.spooldir import reading, settings
from ottla.connect.connectors.spooldir.directory import Directory, InputFile, needed_directories
from ottla.connect.data.record import Header, SourceRecord
from ottla.connect.data.schema import INT64, STRING, Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import ConnectError, DataError

log = logging.getLogger(__name__)

_TIMESTAMP = Schema(SchemaType.INT64, name="org.apache.kafka.connect.data.Timestamp", version=1)
_LONGEST_WAIT = 1.0


class _SpoolDirConnector(SourceConnector):
    reader: ClassVar[type[reading.Reader]]

    def local_paths(self, config: Config) -> Mapping[str, str]:
        names = ("input.path", "finished.path", "error.path")
        return {name: config[name] for name in names if config.get(name)}

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        parsed = self.config_def.parse(config)
        found: dict[str, list[str]] = {}
        for name in needed_directories(parsed):
            problem = settings.directory_problem(name, parsed[name])
            if problem is not None:
                found[name] = [problem]
        try:
            self.reader(parsed)
        except ConnectError as error:
            found["value.schema"] = [error.message]
        if parsed["timestamp.mode"] == "FIELD" and not parsed.get("timestamp.field"):
            found["timestamp.mode"] = ["With timestamp.mode FIELD, timestamp.field has to name the field."]
        return found

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [
            {**self.config, "task.index": str(number), "task.count": str(max_tasks)}
            for number in range(max_tasks)
        ]


class _SpoolDirTask(SourceTask):
    connector: ClassVar[type[_SpoolDirConnector]]

    def start(self, config: Config, context: SourceTaskContext) -> None:
        self._settings = self.connector.config_def.parse(config)
        self._context = context
        self._directory = Directory(self._settings)
        self._reader = self.connector.reader(self._settings)
        self._open = contextlib.ExitStack()
        self._file: InputFile | None = None
        self._rows: Iterator[reading.Row] = iter(())
        self._offset = 0
        self._finished: list[InputFile] = []
        self._failed: tuple[InputFile, DataError] | None = None
        self._has_uncommitted = False
        self._empty_polls = 0

    def poll(self) -> Sequence[SourceRecord]:
        records = self._read()
        self._has_uncommitted = self._has_uncommitted or bool(records)
        self._empty_polls = 0 if records else self._empty_polls + 1
        if self._empty_polls > 1:
            time.sleep(min(self._settings["empty.poll.wait.ms"] / 1000, _LONGEST_WAIT))
        return records

    def commit(self) -> None:
        self._has_uncommitted = False
        self._clean_up()

    def stop(self) -> None:
        if hasattr(self, "_open"):
            self._open.close()

    def _clean_up(self) -> None:
        while self._finished:
            self._directory.finished(self._finished[0])
            del self._finished[0]

    def _read(self) -> list[SourceRecord]:
        records: list[SourceRecord] = []
        most: int = self._settings["batch.size"]
        while len(records) < most and self._next_file(bool(records)):
            assert self._file is not None
            try:
                for row in itertools.islice(self._rows, most - len(records)):
                    self._offset += 1
                    records.append(self._record(row))
                if len(records) < most:
                    self._end_of_file()
            except (DataError, UnicodeDecodeError, EOFError, OSError) as error:
                self._failed = self._file, _data_error(self._file, error)
                self._end_of_file(finished=False)
        if not records and not self._has_uncommitted:
            # Empty files, and files committed before a crash.
            self._clean_up()
        return records

    def _next_file(self, has_records: bool) -> bool:
        """Open the next file, unless one is open. Return False while a failed file waits for the commit."""
        if self._failed is not None:
            if has_records or self._has_uncommitted or self._finished:
                # Earlier records are not committed yet. The failed file stays in place until they are.
                return False
            self._give_up(*self._failed)
        if self._file is None:
            found = self._directory.next(self._finished)
            if found is None:
                return False
            self._begin(found)
        return True

    def _begin(self, file: InputFile) -> None:
        try:
            opened = self._open.enter_context(reading.open_text(file.path, self._reader.charset))
        except OSError as error:
            raise ConnectError(f"Cannot open {file.path}: {error.strerror}.") from None
        self._file = file
        offset = self._context.offset({"fileName": file.name})
        self._offset = offset["offset"] if offset is not None and _is_same(offset, file) else 0
        self._rows = itertools.islice(self._reader.rows(opened, file.path), self._offset, None)

    def _end_of_file(self, finished: bool = True) -> None:
        assert self._file is not None
        self._open.close()
        if finished:
            self._finished.append(self._file)
        self._file, self._rows = None, iter(())

    def _give_up(self, file: InputFile, error: DataError) -> None:
        self._failed = None
        place = self._directory.failed(file)
        message = (
            f"{error.message} The file was moved to {place}; correct it and put it back into input.path."
        )
        if self._settings["halt.on.error"]:
            raise ConnectError(message)
        log.error("%s", message)

    def _record(self, row: reading.Row) -> SourceRecord:
        file = self._file
        assert file is not None
        return SourceRecord(
            self._settings["topic"],
            row.value,
            row.value_schema,
            row.key,
            row.key_schema,
            timestamp=self._timestamp(row, file),
            headers=self._headers(file),
            source_partition={"fileName": file.name},
            source_offset={"offset": self._offset, "length": file.length, "lastModified": file.modified},
        )

    def _timestamp(self, row: reading.Row, file: InputFile) -> int | None:
        mode = self._settings["timestamp.mode"]
        if mode == "FILE_TIME":
            return file.modified
        if mode == "PROCESS_TIME":
            return int(time.time() * 1000)
        name = self._settings["timestamp.field"]
        schema = row.value_schema.field(name) if isinstance(row.value, Struct) else None
        when = row.value.get(name) if schema is not None else None
        if not isinstance(when, dt.datetime):
            raise DataError(
                f"{file.path}, record {self._offset}: Field '{name}' must be present and set to a timestamp "
                "and cannot be optional."
            )
        return int(when.timestamp() * 1000)

    def _headers(self, file: InputFile) -> list[Header]:
        if self._settings["metadata.location"] == "NONE":
            return []
        modified = dt.datetime.fromtimestamp(file.modified / 1000, dt.UTC)
        return [
            Header("file.name", file.name, STRING),
            Header("file.path", file.path, STRING),
            Header("file.length", file.length, INT64),
            Header("file.offset", self._offset, INT64),
            Header("file.last.modified", modified, _TIMESTAMP),
        ]


def _is_same(offset: Mapping[str, Any], file: InputFile) -> bool:
    """Return False for a new file under an old name, which is read from the start. Java's offsets have no length."""
    if "length" not in offset:
        return True
    return (offset["length"], offset["lastModified"]) == (file.length, file.modified)


def _data_error(file: InputFile, error: Exception) -> DataError:
    if isinstance(error, DataError):
        return error
    if isinstance(error, UnicodeDecodeError):
        return DataError(f"{file.path} is not in the character set {error.encoding}: {error.reason}.")
    return DataError(f"{file.path} cannot be read: {error}.")


class SpoolDirLineDelimitedSourceConnector(_SpoolDirConnector):
    config_def = settings.lines()
    reader = reading.LineReader
    summary = "lines of files in a directory"


class SpoolDirSchemaLessJsonSourceConnector(_SpoolDirConnector):
    config_def = settings.lines()
    reader = reading.SchemaLessJsonReader
    summary = "JSON values of files in a directory, as text"


class SpoolDirCsvSourceConnector(_SpoolDirConnector):
    config_def = settings.csv_files()
    reader = reading.CsvReader
    summary = "rows of CSV files in a directory"


class SpoolDirJsonSourceConnector(_SpoolDirConnector):
    config_def = settings.json_files()
    reader = reading.JsonReader
    summary = "JSON objects of files in a directory, with schemas"


def _task_of(owner: type[_SpoolDirConnector]) -> type[SourceTask]:
    return type(owner.__name__.replace("Connector", "Task"), (_SpoolDirTask,), {"connector": owner})


for _each in (
    SpoolDirLineDelimitedSourceConnector,
    SpoolDirSchemaLessJsonSourceConnector,
    SpoolDirCsvSourceConnector,
    SpoolDirJsonSourceConnector,
):
    _each.task_class = _task_of(_each)
