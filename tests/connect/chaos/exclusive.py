"""Built-in connectors whose tasks hold an exclusive lock while they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ottla.connect.api import Config, SinkTaskContext, SourceTaskContext
from ottla.connect.config.config_def import ConfigDef, ConfigType
from ottla.connect.connectors.datagen.connector import DatagenConnector, DatagenTask
from ottla.connect.connectors.file_stream import (
    FileStreamSinkConnector,
    FileStreamSinkTask,
    FileStreamSourceConnector,
    FileStreamSourceTask,
)
from tests.connect.chaos.locks import Lock

DIRECTORY = "exclusive.directory"


class _Exclusive:
    """Mixin for a task class: holds the lock from start to the end of stop."""

    _lock: Lock | None = None

    def start(self, config: Config, context: Any) -> None:
        self._lock = Lock(Path(config[DIRECTORY]), f"{config['name']}-{config.get('task.id', '0')}")
        super().start(config, context)  # type: ignore[misc]

    def stop(self) -> None:
        super().stop()  # type: ignore[misc]
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()


class FileSourceTask(_Exclusive, FileStreamSourceTask):
    def start(self, config: Config, context: SourceTaskContext) -> None:
        super().start(config, context)


class FileSinkTask(_Exclusive, FileStreamSinkTask):
    def start(self, config: Config, context: SinkTaskContext) -> None:
        super().start(config, context)


class GeneratingTask(_Exclusive, DatagenTask):
    def start(self, config: Config, context: SourceTaskContext) -> None:
        super().start(config, context)


def _with_directory(definition: ConfigDef) -> ConfigDef:
    copied = ConfigDef()
    copied.keys.update(definition.keys)
    return copied.define(DIRECTORY, ConfigType.STRING)


class FileSource(FileStreamSourceConnector):
    task_class = FileSourceTask
    config_def = _with_directory(FileStreamSourceConnector.config_def)


class FileSink(FileStreamSinkConnector):
    task_class = FileSinkTask
    config_def = _with_directory(FileStreamSinkConnector.config_def)


class Generating(DatagenConnector):
    task_class = GeneratingTask
    config_def = _with_directory(DatagenConnector.config_def)
