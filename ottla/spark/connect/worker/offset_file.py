"""The offsets file of a standalone worker, in the format of Kafka's.

Sources commit their offsets in the transaction of their records, so offsets are kept in a topic here as well. The file
follows it: it is read when the worker starts, if somebody else has written it since, and written every
`offset.flush.interval.ms` and at the end, so that Kafka's standalone worker can go on from it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from contextlib import closing
from pathlib import Path

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.spark.connect.config.config_def import ConfigError
from ottla.spark.connect.config.worker_config import WorkerConfig
from ottla.spark.connect.runtime.compacted_topic import read_topic
from ottla.spark.connect.worker.internal_topics import InternalTopic
from ottla.spark.connect.worker.java_maps import NotAJavaMap, decode_map, encode_map
from ottla.spark.connect.worker.topic_storage import TopicStorage

_log = logging.getLogger(__name__)

_SECONDS = 30.0


class OffsetFile:
    def __init__(self, worker: WorkerConfig) -> None:
        assert worker.offset_file is not None
        self._worker = worker
        self._path = Path(worker.offset_file)
        #: What we have written last, to recognize that nobody else has since.
        self._mark = self._path.with_name(self._path.name + ".written")
        self._topic = worker.offset_topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connect-offset-file", daemon=True)

    def start(self) -> None:
        """Raises ConfigError, ClientError."""
        topic = InternalTopic("offset", self._topic, 1, -1, {"cleanup.policy": "compact"})
        storage = TopicStorage(self._worker.client_settings, topic, lambda key, value, offset: None)
        try:
            storage.start(_SECONDS)
            for key, value in self._written_by_others().items():
                storage.write(key, value, _SECONDS)
        finally:
            storage.stop()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
            self._write()

    def _written_by_others(self) -> dict[bytes, bytes | None]:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"Cannot read {self._path}: {error.strerror}.") from None
        if not data or self._last_written() == _digest(data):
            return {}
        try:
            return decode_map(data)
        except NotAJavaMap as error:
            raise ConfigError(
                f"{self._path} is not an offsets file of a standalone worker: {error}. Name another one in "
                "offset.storage.file.filename, or delete it to begin without offsets."
            ) from None

    def _last_written(self) -> str:
        try:
            return self._mark.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def _run(self) -> None:
        while not self._stopping.wait(self._worker.offset_flush_interval):
            self._write()

    def _write(self) -> None:
        try:
            with closing(Cluster(self._worker.client_settings)) as cluster:
                offsets = dict(read_topic(cluster, self._topic))
            data = encode_map(offsets)
            if self._last_written() == _digest(data) and self._path.exists():
                return
            fresh = self._path.with_name(self._path.name + ".new")
            fresh.write_bytes(data)
            os.replace(fresh, self._path)
            self._mark.write_text(_digest(data), "ascii")
        except (OSError, ClientError) as error:
            _log.warning("Offsets cannot be written to %s: %s", self._path, error)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
