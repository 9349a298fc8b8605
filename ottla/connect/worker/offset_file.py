"""The offsets file of a standalone worker, in Kafka's format.

Sources commit offsets in the transaction of their records, so the offsets are in a topic here as well. The file follows
the topic. On startup the worker imports the file if another process has written it. It writes the file every
`offset.flush.interval.ms` and at the end, so that Kafka's standalone worker can continue from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import threading
from contextlib import closing
from pathlib import Path

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.connect.config.config_def import ConfigError
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.runtime.compacted_topic import read_topic
from ottla.connect.worker.internal_topics import InternalTopic
from ottla.connect.worker.java_maps import NotAJavaMap, decode_map, encode_map
from ottla.connect.worker.topic_storage import TopicStorage

_log = logging.getLogger(__name__)

_SECONDS = 30.0


class OffsetFile:
    def __init__(self, worker: WorkerConfig) -> None:
        assert worker.offset_file is not None
        self._worker = worker
        self._path = Path(worker.offset_file)
        #: Digests of the new and the previous content, to detect writes by other processes.
        self._mark = self._path.with_name(self._path.name + ".written")
        self._in_place: str | None = None
        self._is_failing = False
        self._topic = worker.offset_topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connect-offset-file", daemon=True)

    def start(self) -> None:
        """Raises ConfigError, ClientError."""
        topic = InternalTopic("offset", self._topic, 1, -1, {"cleanup.policy": "compact"})
        storage = TopicStorage(self._worker.client_settings, topic, lambda key, value, offset: None)
        try:
            storage.start(_SECONDS)
            self._take_over(storage)
        finally:
            storage.stop()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
            self._write()

    def _take_over(self, storage: TopicStorage) -> None:
        """Copy offsets from a file written by others to the topic.

        This happens once, because the topic is newer afterwards.
        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(f"Cannot read {self._path}: {error.strerror}.") from None
        if not data:
            return
        self._in_place = _digest(data)
        if self._in_place in self._marked():
            return
        try:
            offsets = decode_map(data)
        except NotAJavaMap as error:
            raise ConfigError(
                f"{self._path} is not an offsets file of a standalone worker: {error}. Name another one in "
                "offset.storage.file.filename, or delete it to begin without offsets."
            ) from None
        for key, value in offsets.items():
            storage.write(key, value, _SECONDS)
        try:
            self._set_mark(self._in_place)
        except OSError as error:
            raise ConfigError(f"Cannot write {self._mark}: {error.strerror}.") from None

    def _marked(self) -> list[str]:
        try:
            return self._mark.read_text("ascii").split()
        except (OSError, UnicodeDecodeError):
            return []

    def _set_mark(self, *digests: str | None) -> None:
        _replace(self._mark, "\n".join(filter(None, digests)).encode())

    def _run(self) -> None:
        while not self._stopping.wait(self._worker.offset_flush_interval):
            self._write()

    def _write(self) -> None:
        try:
            with closing(Cluster(self._worker.client_settings)) as cluster:
                data = encode_map(dict(read_topic(cluster, self._topic)))
            digest = _digest(data)
            if digest != self._in_place or not self._path.exists():
                # The mark matches both contents, whichever a crash leaves in place.
                self._set_mark(digest, self._in_place)
                _replace(self._path, data)
                self._in_place = digest
        except (OSError, ClientError) as error:
            if not self._is_failing:
                reason = error.message if isinstance(error, ClientError) else error.strerror or str(error)
                _log.warning(
                    "Offsets cannot be written to %s: %s. They are kept in topic %s meanwhile, and the file follows as "
                    "soon as it can.",
                    self._path,
                    reason.rstrip("."),
                    self._topic,
                )
            self._is_failing = True
        else:
            if self._is_failing:
                _log.info("Offsets are written to %s again.", self._path)
            self._is_failing = False


def _replace(file: Path, data: bytes) -> None:
    """Replace a file atomically, even if the disk is full."""
    fresh = file.with_name(file.name + ".new")
    try:
        fresh.write_bytes(data)
        os.replace(fresh, file)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
