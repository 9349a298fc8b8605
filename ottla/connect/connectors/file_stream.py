"""FileStream: copies lines from a growing file to a topic, and records to lines, like Kafka's FileStream connectors.

Positions count bytes and are correct for every file. Kafka counts characters but skips bytes, which agrees only for
ASCII.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from ottla.connect.api import (
    Config,
    SinkConnector,
    SinkTask,
    SinkTaskContext,
    SourceColumns,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
    SourceTaskContext,
    TopicPartition,
)
from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance, not_empty
from ottla.connect.data.columns import Columns, SinkColumns
from ottla.connect.data.record import SinkRecord, SourceRecord
from ottla.connect.data.schema import STRING
from ottla.connect.errors import ConnectError, RetriableError

_log = logging.getLogger(__name__)

_FILE = "file"
_TOPIC = "topic"
_BATCH_SIZE = "batch.size"
_FILENAME = "filename"
_POSITION = "position"

_CHUNK = 1 << 20
#: Disk full or quota exceeded: retry until space is available.
_FULL = {errno.ENOSPC, errno.EDQUOT}
#: A carriage return ends a line, alone or before a line feed. At the end of the data a line feed may still follow.
_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)


class FileStreamSourceTask(SourceTask):
    """Invariant: `_position` is the end of the last line split off, and `_rest` holds the bytes read after it."""

    def start(self, config: Config, context: SourceTaskContext) -> None:
        settings = FileStreamSourceConnector.config_def.parse(config)
        self._path: str | None = settings[_FILE] or None
        self._topic: str = settings[_TOPIC]
        self._batch_size: int = settings[_BATCH_SIZE]
        self._context = context
        self._stream: IO[bytes] | None = None
        self._position = 0
        self._rest = b""
        self._lines: list[tuple[bytes, int]] = []
        self._warned = False
        if self._path is None:
            self._stream = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)

    def stop(self) -> None:
        stream, self._stream = getattr(self, "_stream", None), None
        if stream is not None:
            stream.close()

    def poll(self) -> Sequence[SourceRecord]:
        if not self._open():
            return ()
        if not self._lines and not self._read_lines():
            return ()
        some, self._lines = self._lines[: self._batch_size], self._lines[self._batch_size :]
        return self._records(some, _now_ms())

    def _records(self, lines: Iterable[tuple[bytes, int]], now: int) -> list[SourceRecord]:
        partition = {_FILENAME: self._path}
        tracked = self._path is not None
        return [
            SourceRecord(
                topic=self._topic,
                value=line.decode(errors="replace"),
                value_schema=STRING,
                timestamp=now,
                source_partition=partition,
                source_offset={_POSITION: end if tracked else None},
            )
            for line, end in lines
        ]

    def poll_columns(self) -> SourceColumns | None:
        """Return all lines read, without creating an object per line."""
        if not self._open():
            return None
        if not self._lines:
            read = self._read()
            if not read:
                return None
            data = self._rest + read
            if b"\r" not in data:
                return self._columns_of(data)
            self._split(data)
            if not self._lines:
                return None
        lines, self._lines = self._lines, []
        return self._columns(
            [line.decode(errors="replace") for line, _ in lines], lines[-1][1], lambda: lines
        )

    def _columns_of(self, data: bytes) -> SourceColumns | None:
        """Split data whose lines end only with line feeds."""
        *lines, self._rest = data.rsplit(b"\n", 1)
        if not lines:
            return None
        text, begin = lines[0], self._position
        self._position += len(text) + 1

        def with_ends() -> Iterator[tuple[bytes, int]]:
            end = begin
            for line in text.split(b"\n"):
                end += len(line) + 1
                yield line, end

        # In UTF-8 a line feed byte is never part of another character, valid or not.
        return self._columns(text.decode(errors="replace").split("\n"), self._position, with_ends)

    def _columns(
        self, values: list[str], end: int, lines: Callable[[], Iterable[tuple[bytes, int]]]
    ) -> SourceColumns:
        now = _now_ms()
        columns = Columns(
            topic=self._topic,
            value_schema=STRING,
            values=values,
            key_schema=None,
            keys=[None] * len(values),
            timestamps=[now] * len(values),
        )
        offset = {_POSITION: end if self._path is not None else None}
        return SourceColumns(
            columns, [({_FILENAME: self._path}, offset)], lambda: self._records(lines(), now)
        )

    def _open(self) -> bool:
        if self._stream is not None:
            return True
        assert self._path is not None
        try:
            stream = open(self._path, "rb", buffering=0)  # noqa: SIM115  kept open
        except FileNotFoundError:
            if not self._warned:
                _log.warning("There is no file %s yet: waiting for it", self._path)
                self._warned = True
            return False
        except OSError as error:
            raise ConnectError(f"The file {self._path} cannot be read: {error.strerror}.") from error
        found = self._context.offset({_FILENAME: self._path})
        position = 0 if found is None else found.get(_POSITION)
        if position is None:
            position = 0
        if not isinstance(position, int) or isinstance(position, bool):
            stream.close()
            raise ConnectError("Offset position is the incorrect type")
        stream.seek(position)
        self._position, self._rest = position, b""
        self._stream = stream
        return True

    def _read(self) -> bytes:
        assert self._stream is not None
        if self._path is None and not select.select([self._stream], [], [], 0)[0]:
            return b""
        return self._stream.read(_CHUNK) or b""

    def _read_lines(self) -> bool:
        data = self._read()
        if data:
            self._split(self._rest + data)
        return bool(self._lines)

    def _split(self, data: bytes) -> None:
        start = 0
        for found in _LINE_END.finditer(data):
            self._position += found.end() - start
            self._lines.append((data[start : found.start()], self._position))
            start = found.end()
        self._rest = data[start:]


class FileStreamSourceConnector(SourceConnector):
    task_class = FileStreamSourceTask
    summary = "The lines of a file, or of the standard input, to a topic"
    config_def = (
        ConfigDef()
        .define(
            _FILE,
            ConfigType.STRING,
            None,
            Importance.HIGH,
            "Source filename. If not specified, the standard input will be used",
        )
        .define(
            _TOPIC,
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="The topic to publish data to",
            validator=not_empty,
        )
        .define(
            _BATCH_SIZE,
            ConfigType.INT,
            2000,
            Importance.LOW,
            "The maximum number of records the source task can read from the file each time it is polled",
        )
    )

    def local_paths(self, config: Config) -> Mapping[str, str]:
        return {_FILE: config.get(_FILE) or ""}

    def runs_in_driver(self) -> bool:
        return not self.config.get(_FILE)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config)]  # only one task can read a stream

    def check_offsets(
        self, config: Config, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> None:
        if not config.get(_FILE):
            raise ConnectError(
                f"Offsets cannot be modified if the '{_FILE}' configuration is unspecified. This is because stdin is "
                "used for input and offsets are not tracked."
            )
        for partition, offset in offsets:
            if offset is None:
                continue  # whatever this is, it may be removed
            if _POSITION not in offset:
                raise ConnectError(f"Offset objects should either be null or contain the key '{_POSITION}'")
            position = offset[_POSITION]
            if not isinstance(position, int) or isinstance(position, bool):
                raise ConnectError(
                    f"The value for the '{_POSITION}' key in the offset is expected to be a Long value"
                )
            if position < 0:
                raise ConnectError(
                    f"The value for the '{_POSITION}' key in the offset should be a non-negative value"
                )
            if partition is None:
                raise ConnectError("Partition objects cannot be null")
            if _FILENAME not in partition:
                raise ConnectError(f"Partition objects should contain the key '{_FILENAME}'")


class FileStreamSinkTask(SinkTask):
    def start(self, config: Config, context: SinkTaskContext) -> None:
        self._path: str | None = FileStreamSinkConnector.config_def.parse(config)[_FILE]
        self._stream: IO[bytes] | None = None
        if not self._path:
            self._stream = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
            return
        try:
            self._stream = open(self._path, "ab", buffering=0)  # noqa: SIM115  kept open
        except OSError as error:
            raise ConnectError(
                f"Couldn't find or create file '{self._path}' for FileStreamSinkTask: {error.strerror}."
            ) from error

    def put(self, records: Sequence[SinkRecord]) -> None:
        self._write([record.value for record in records])

    def put_columns(self, columns: Sequence[SinkColumns]) -> None:
        self._write([value for each in columns for value in each.values])

    def _write(self, values: list[Any]) -> None:
        assert self._stream is not None
        if not values:
            return
        try:
            text = "\n".join(values)
        except TypeError:  # not all values are texts
            text = "\n".join(map(_text, values))
        data = f"{text}\n".encode() if values else b""
        if self._path:
            self._append(data)
        else:
            self._stream.write(data)

    def _append(self, data: bytes) -> None:
        """Append all data or nothing, because the same records come again after a RetriableError."""
        assert self._stream is not None
        size = os.fstat(self._stream.fileno()).st_size
        written = 0
        try:
            while written < len(data):
                written += self._stream.write(data[written:]) or 0
        except OSError as error:
            self._take_back(size, written)
            sentence = f"The file {self._path} cannot be written: {error.strerror}."
            kind = RetriableError if error.errno in _FULL else ConnectError
            raise kind(sentence) from error

    def _take_back(self, size: int, written: int) -> None:
        """Remove a partial line, unless another process has written to the file."""
        assert self._stream is not None
        with contextlib.suppress(OSError):
            if written and os.fstat(self._stream.fileno()).st_size == size + written:
                os.ftruncate(self._stream.fileno(), size)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        assert self._stream is not None
        self._stream.flush()

    def stop(self) -> None:
        stream, self._stream = getattr(self, "_stream", None), None
        if stream is not None:
            stream.close()


def _now_ms() -> int:
    return int(time.time() * 1000)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    from ottla.connect.data.java_values import java_text

    return java_text(value)


class FileStreamSinkConnector(SinkConnector):
    task_class = FileStreamSinkTask
    summary = "The values of records as lines of a file, or of the standard output"
    delivery = "at least once"
    config_def = ConfigDef().define(
        _FILE,
        ConfigType.STRING,
        None,
        Importance.HIGH,
        "Destination filename. If not specified, the standard output will be used",
    )

    def local_paths(self, config: Config) -> Mapping[str, str]:
        return {_FILE: config.get(_FILE) or ""}

    def runs_in_driver(self) -> bool:
        return not self.config.get(_FILE)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config) for _ in range(max_tasks)]
