"""Connectors of the box whose tasks hold a lock for as long as they run, which nobody else may hold at the same time.

The kernel lets go of a lock when its process ends, however that ends: so a task that is started while another of its
name still runs, in whatever process and under whatever worker, is seen. It is written down in `violations`.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import IO, Any

from ottla.spark.connect.api import Config, SinkTaskContext, SourceTaskContext
from ottla.spark.connect.config.config_def import ConfigDef, ConfigType
from ottla.spark.connect.connectors.datagen.connector import DatagenConnector, DatagenTask
from ottla.spark.connect.connectors.file_stream import (
    FileStreamSinkConnector,
    FileStreamSinkTask,
    FileStreamSourceConnector,
    FileStreamSourceTask,
)

DIRECTORY = "exclusive.directory"


class Lock:
    def __init__(self, config: Config) -> None:
        directory = Path(config[DIRECTORY])
        name = f"{config['name']}-{config.get('task.id', '0')}"
        self._file: IO[str] = open(directory / f"{name}.lock", "w")  # noqa: SIM115
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with open(directory / "violations", "a") as violations:
                violations.write(
                    f"{time.time():.3f} {name} was started by {os.getpid()} while it ran elsewhere\n"
                )

    def release(self) -> None:
        self._file.close()


class _Exclusive:
    """Before the class of a task: holds the lock from its start to the end of its stop."""

    _lock: Lock | None = None

    def start(self, config: Config, context: Any) -> None:
        self._lock = Lock(config)
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


def violations(directory: Path) -> str:
    file = directory / "violations"
    return file.read_text() if file.exists() else ""
